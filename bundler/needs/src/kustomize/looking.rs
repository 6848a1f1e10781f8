//! What a build has besides images of containers: what looks like one, and fields that are configured to hold one.
//!
//! What comes in: the objects that are reached. What goes out: what was found in them. It is pure.

use std::sync::Arc;

use outhaul_control::diagnostic::{Location, SourceFile};
use outhaul_control::model::ImageField;
use outhaul_control::yaml::Node;

use crate::fields::{self, Seen};
use crate::manifest::{self, is_kustomization};
use crate::possible::{Possible, possible};

pub(super) struct Looking<'a> {
    pub(super) fields: &'a [ImageField],
    pub(super) found: Vec<Possible>,
    pub(super) seen: Seen,
}

impl<'a> Looking<'a> {
    pub(super) fn for_fields(fields: &'a [ImageField]) -> Self {
        Self {
            fields,
            found: Vec::new(),
            seen: Seen::new(),
        }
    }

    /// Looks at one document of a file.
    pub(super) fn at(&mut self, file: &Arc<SourceFile>, document: &Node) {
        if is_kustomization(file, document) {
            return;
        }
        let mut found: Vec<(_, Location)> = Vec::new();
        manifest::images(file, document, &mut found);
        let more = fields::images(file, document, self.fields, &mut self.seen);
        manifest::add_images(&mut found, more);
        let known = found.iter().map(|(_, at)| at.span.start).collect();
        for one in possible(file, document, self.fields, &known) {
            // A base is reached as often as it is named.
            if !self.found.contains(&one) {
                self.found.push(one);
            }
        }
    }
}
