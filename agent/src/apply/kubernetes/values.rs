//! What was sealed in objects that are to be removed: what must not be shown of them.
//!
//! What comes in: rows of the inventory, and the generations that wrote them, as they are kept. What goes out:
//! the values that were opened for them, to be struck out. Where a generation is gone, so are its values, and
//! with them whatever the server says of such an object.

use std::collections::BTreeSet;

use outhaul_bundle::report::StepResult;
use outhaul_bundle::{Index, Limits};
use zeroize::Zeroizing;

use super::mark::Mark;
use crate::durable;
use crate::generation;
use crate::home::Home;
use crate::secrets::{Secrets, struck_out};
use crate::state::inventory::Item;

/// What is known of sealed values.
pub struct Values {
    values: Vec<Zeroizing<String>>,
    /// Whether these are all.
    all: bool,
}

/// The values of the generations that recorded `items`, as far as they can still be opened.
pub fn of_recorded(home: &Home, items: &[Item]) -> Values {
    let (mut values, mut all) = (Vec::new(), true);
    let sources: BTreeSet<(u64, &str, Option<String>)> = items
        .iter()
        .map(|item| {
            let site = Mark::parse(&item.digest).and_then(|mark| mark.owner.site);
            (item.generation, item.assignment.as_str(), site)
        })
        .collect();
    for (generation, assignment, site) in sources {
        match of_generation(home, generation, assignment, site.as_deref()) {
            Some(more) => values.extend(more),
            None => all = false,
        }
    }
    Values { values, all }
}

fn of_generation(
    home: &Home,
    number: u64,
    assignment: &str,
    site: Option<&str>,
) -> Option<Vec<Zeroizing<String>>> {
    let limits = Limits::default();
    let path = home.generation(number).join("index.json");
    let bytes = durable::read(&path, limits.max_index_bytes).ok()?;
    let site = site?.parse().ok()?;
    let index = Index::from_bytes(&bytes, &limits).ok()?.for_site(&site);
    let desired = generation::desired(home, &index, &site)
        .into_iter()
        .find(|desired| desired.assignment.name.as_str() == assignment)?;
    let secrets = Secrets::load(&home.identities()).ok()?;
    let mut values = Vec::new();
    for (_, path, told) in desired.files() {
        if let Some(opened) = secrets.open_file(&path, &told, &desired.place()).ok()? {
            values.extend(opened.values);
        }
    }
    Some(values)
}

impl Values {
    /// Those that are known.
    pub fn known(&self) -> &[Zeroizing<String>] {
        &self.values
    }

    /// Steps without any value.
    pub fn strike_out_of(&self, mut steps: Vec<StepResult>) -> Vec<StepResult> {
        for step in &mut steps {
            step.name = struck_out(&step.name, &self.values);
            step.message = struck_out(&step.message, &self.values);
            if !self.all && step.status == "failed" {
                "the API server refuses; its words are not shown, because what was sealed in this object is \
                 not known any more: see the server's own log"
                    .clone_into(&mut step.message);
            }
        }
        steps
    }
}
