//! Commands in advice, as they are to be typed here: with the folder that this command was given.
//!
//! What comes in: the program, its option for the folder, and texts with commands between backticks. What goes out: the same texts,
//! with that option where such a command does not have it. Whoever follows an advice must not reach another folder.

use std::borrow::Cow;
use std::path::Path;
use std::sync::OnceLock;

use crate::text::quoted;

struct CommandFolder {
    begin: String,
    option: &'static str,
    words: String,
}

static PLACE: OnceLock<CommandFolder> = OnceLock::new();

/// Commands of `program` are for the folder that `option` names, which is not the one that they would use by themselves.
pub fn name(program: &str, option: &'static str, folder: &Path) {
    // Only the first counts: a process runs one command.
    let _ = PLACE.set(CommandFolder {
        begin: format!("`{program} "),
        option,
        words: format!("{option} {} ", quoted(folder)),
    });
}

/// A text as it is to be printed.
pub fn named(text: &str) -> Cow<'_, str> {
    PLACE.get().map_or(Cow::Borrowed(text), |at| at.put(text))
}

impl CommandFolder {
    fn put<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some((first, rest)) = text.split_once(&self.begin) else {
            return Cow::Borrowed(text);
        };
        let mut all = first.to_owned();
        for command in rest.split(&self.begin) {
            all.push_str(&self.begin);
            let own = command.split('`').next().unwrap_or_default();
            if !own.split(' ').any(|word| word == self.option) {
                all.push_str(&self.words);
            }
            all.push_str(command);
        }
        Cow::Owned(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_gets_the_folder_once_and_other_programs_and_words_do_not() {
        let at = CommandFolder {
            begin: "`agent ".into(),
            option: "--state",
            words: "--state 'a b' ".into(),
        };
        let put = |text: &str| at.put(text).into_owned();
        assert_eq!(
            put("`agent approve 3`, or `agent hold`; the agent is up"),
            "`agent --state 'a b' approve 3`, or `agent --state 'a b' hold`; the agent is up"
        );
        for same in [
            "`agent-hub x`",
            "`agent --state c status` shows it",
            "agent status",
            "",
        ] {
            assert_eq!(put(same), same);
        }
    }
}
