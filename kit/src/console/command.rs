//! What a command line asks for, read before it is parsed: also one that cannot be parsed has an answer.
//!
//! What comes in: the arguments. What goes out: the name of the command, and whether JSON was asked for.
//! It refuses nothing.

use std::ffi::OsString;

use clap::Command;

/// Whether one of the arguments is `--output json`.
pub(super) fn asks_for_json(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().skip(1).take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        if word == "--output=json"
            || (word == "--output" && words.clone().next().is_some_and(|w| w == "json"))
        {
            return true;
        }
    }
    false
}

/// The program's name and its subcommands, as far as they are there.
pub(super) fn name(program: Command, arguments: &[OsString]) -> String {
    let mut name = program.get_name().to_owned();
    let mut path = vec![&program];
    let mut words = arguments.iter().skip(1);
    while let Some(word) = words.next() {
        let Some(word) = word.to_str() else { continue };
        if word == "--" {
            break;
        }
        if word.starts_with('-') {
            // The value of an option is not a command.
            if takes_value(&path, word) {
                words.next();
            }
            continue;
        }
        let next = path
            .last()
            .and_then(|command| command.find_subcommand(word));
        let Some(next) = next else { continue };
        name = format!("{name} {}", next.get_name());
        path.push(next);
    }
    name
}

fn takes_value(path: &[&Command], word: &str) -> bool {
    let mut arguments = path.iter().flat_map(|command| command.get_arguments());
    arguments.any(|argument| {
        let long = argument
            .get_long()
            .is_some_and(|long| word.strip_prefix("--") == Some(long));
        let short = argument.get_short().is_some_and(|short| {
            word.len() == 2 && word.ends_with(short) && !word.starts_with("--")
        });
        (long || short) && argument.get_action().takes_values()
    })
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_command_is_named_as_far_as_it_was_typed() {
        let program = || {
            Command::new("outhaul")
                .arg(Arg::new("state").long("state").global(true))
                .subcommand(
                    Command::new("site").subcommand(Command::new("enrol").arg(Arg::new("name"))),
                )
                .subcommand(Command::new("plan"))
        };
        for (line, wanted) in [
            ("outhaul site enrol plan", "outhaul site enrol"),
            ("outhaul --state plan site", "outhaul site"),
            ("outhaul --state=x site --wrong enrol", "outhaul site enrol"),
            ("outhaul plan -- site", "outhaul plan"),
            ("outhaul wrong", "outhaul"),
        ] {
            assert_eq!(name(program(), &words(line)), wanted, "{line}");
        }
    }

    #[test]
    fn json_is_asked_for_in_two_spellings() {
        assert!(asks_for_json(&words("o x --output json")));
        assert!(asks_for_json(&words("o --output=json x")));
        assert!(!asks_for_json(&words("o x --output text json")));
        assert!(!asks_for_json(&words("o x -- --output json")));
    }
}
