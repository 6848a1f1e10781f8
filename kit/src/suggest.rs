//! The nearest name that exists, for a name that does not.
//!
//! What comes in: a word and what it could have been. What goes out: a `help:` text. It suggests only
//! what is near; otherwise it lists what there is.

/// A help text for `word`, which is not one of `known`.
pub fn did_you_mean<S: AsRef<str>>(word: &str, known: &[S]) -> String {
    if let Some(near) = nearest(word, known) {
        return format!("did you mean `{near}`?");
    }
    if known.is_empty() {
        return "none exists".into();
    }
    let names: Vec<String> = known
        .iter()
        .take(20)
        .map(|name| format!("`{}`", name.as_ref()))
        .collect();
    let more = if known.len() > 20 { " …" } else { "" };
    format!("known: {}{more}", names.join(", "))
}

/// A help text of this module as a sentence, before another one.
pub fn as_sentence(help: &str) -> String {
    match help.ends_with('?') {
        true => help.to_owned(),
        false => format!("{help}."),
    }
}

/// The one of `known` that a person most likely meant, when one is near enough.
pub fn nearest<'a, S: AsRef<str>>(word: &str, known: &'a [S]) -> Option<&'a str> {
    let allowed = (word.chars().count() / 3).clamp(1, 4);
    known
        .iter()
        .map(|name| {
            (
                strsim::osa_distance(&word.to_lowercase(), &name.as_ref().to_lowercase()),
                name.as_ref(),
            )
        })
        .filter(|(distance, _)| *distance <= allowed)
        .min()
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_listed() {
        let known = ["repo", "branch", "path"];
        assert_eq!(did_you_mean("repoo", &known), "did you mean `repo`?");
        assert_eq!(did_you_mean("brnach", &known), "did you mean `branch`?");
        assert_eq!(did_you_mean("PATH", &known), "did you mean `path`?");
        assert_eq!(
            did_you_mean("labels", &known),
            "known: `repo`, `branch`, `path`"
        );
        let sentences = ["repoo", "labels"].map(|word| as_sentence(&did_you_mean(word, &known)));
        assert_eq!(
            sentences,
            ["did you mean `repo`?", "known: `repo`, `branch`, `path`."]
        );
    }
}
