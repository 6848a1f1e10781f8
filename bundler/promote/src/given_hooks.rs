//! Programs that were given for hooks, and no policy has a use for: a mistyped name is not left out in silence.
//!
//! What comes in: the promotion policies, and the names with a program. What goes out: a refusal of a name that no policy has, for one
//! promotion; notes for who follows the chain, where a hook that was taken out of a policy must not stop the steps of others. It runs nothing.

use std::collections::BTreeSet;

use super::hooks::{HookPrograms, HookStep};
use super::{Chain, PromoteError};
use outhaul_control::model::PromotionPolicy;
use outhaul_kit::suggest::{as_sentence, did_you_mean};

impl Chain<'_> {
    /// Refuses programs for hooks that no policy has. Where the step lacks a program for one of its own, that is what is said: the name that
    /// was given may be a mistyped one.
    ///
    /// # Errors
    /// [`PromoteError::HookUnused`], or [`PromoteError::HookUnknown`].
    pub(super) fn refuse_unused_hooks(
        &self,
        (to, programs): (&str, &HookPrograms),
        step: Option<&HookStep<'_>>,
    ) -> Result<(), PromoteError> {
        let known = names(&self.policies);
        let unused = programs.unused(&known);
        let Some(first) = unused.first() else {
            return Ok(());
        };
        step.map_or(Ok(()), HookStep::check)?;
        let named: Vec<String> = unused.iter().map(|name| format!("`{name}`")).collect();
        Err(PromoteError::HookUnused {
            environment: to.to_owned(),
            hooks: named.join(", "),
            near: as_sentence(&near(first, &known)),
        })
    }

    /// Notes about programs for hooks of other steps than one to `to`.
    pub fn hooks_of_other_steps(&self, to: &str, programs: &HookPrograms) -> Vec<String> {
        let all = names(&self.policies);
        let own = names(self.policies.iter().filter(|policy| policy.to.value == to));
        let given = programs.names().into_iter();
        given
            .filter(|name| all.contains(name) && !own.contains(name))
            .map(|name| {
                format!("hook `{name}` is of another step than one to `{to}`: it is not run")
            })
            .collect()
    }
}

/// A note for each program for a hook that no policy has.
pub(super) fn notes(policies: &[PromotionPolicy], programs: &HookPrograms) -> Vec<String> {
    let known = names(policies);
    let unused = programs.unused(&known).into_iter();
    unused
        .map(|name| {
            let near = near(name, &known);
            format!(
                "no promotion policy has a hook `{name}`, for which a program was given: {near}"
            )
        })
        .collect()
}

fn near(name: &str, known: &[&str]) -> String {
    match known.is_empty() {
        true => "no policy has any hook".to_owned(),
        false => did_you_mean(name, known),
    }
}

/// The names of the hooks of these policies, sorted, each once.
fn names<'p>(policies: impl IntoIterator<Item = &'p PromotionPolicy>) -> Vec<&'p str> {
    let hooks = policies.into_iter().flat_map(|policy| {
        let hooks = &policy.hooks;
        hooks.before.iter().chain(&hooks.after)
    });
    let names: BTreeSet<&str> = hooks.map(|hook| hook.name.value.as_str()).collect();
    names.into_iter().collect()
}
