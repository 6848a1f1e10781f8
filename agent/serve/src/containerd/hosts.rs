//! The text of a `hosts.toml` that asks the site's mirror.
//!
//! What comes in: the mirror's address and authority, and the text of a file that is there. What goes out: a new text in
//! which the mirror is asked first and all else is as it was. It is pure. Text is inserted, so that comments and the
//! order of hosts stay, and the result is read again: where it does not say what it should, there is none.

use std::path::PathBuf;

use toml::{Table, Value};

/// The mirror, as containerd reaches it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mirror {
    /// Its address, such as `https://127.0.0.1:5443`.
    pub url: String,
    /// The authority of its certificate; none without TLS.
    pub authority: Option<PathBuf>,
}

impl Mirror {
    /// A file of its own: nothing else is asked.
    pub(super) fn alone(&self) -> String {
        format!(
            "# Written by `outhaul-mirror enable`; `outhaul-mirror disable` removes it.\n\
             # The mirror is the only one that is asked: what no bundle brought is not looked for outside.\n\
             server = {}\n\n{}",
            quoted(&self.url),
            self.host()
        )
    }

    /// The table of the mirror's host.
    fn host(&self) -> String {
        let authority = self.authority.as_ref();
        let authority =
            authority.map(|path| format!("  ca = {}\n", quoted(&path.display().to_string())));
        format!(
            "[host.{}]\n  capabilities = [\"pull\", \"resolve\"]\n{}",
            quoted(&self.url),
            authority.unwrap_or_default()
        )
    }

    /// Whether `text` names this mirror as a host already.
    pub(super) fn is_in(&self, text: &str) -> bool {
        let read: Option<Table> = text.parse().ok();
        read.is_some_and(|table| hosts(&table).is_some_and(|hosts| hosts.contains_key(&self.url)))
    }

    /// `text` with the mirror asked before everything that it names.
    pub(super) fn merged(&self, text: &str) -> Result<String, String> {
        let read: Table = text
            .parse()
            .map_err(|error: toml::de::Error| error.message().to_owned())?;
        if read.get("host").is_some_and(|host| !host.is_table()) {
            return Err("`host` is not a table".to_owned());
        }
        let mut expected = read;
        let ours: Table = self
            .host()
            .parse()
            .map_err(|_| "the mirror's address cannot be written".to_owned())?;
        let host = hosts(&ours).and_then(|hosts| hosts.get(&self.url)).cloned();
        let all = expected
            .entry("host")
            .or_insert_with(|| Value::Table(Table::new()));
        if let (Value::Table(all), Some(host)) = (all, host) {
            all.insert(self.url.clone(), host);
        }
        let note = "# Added by `outhaul-mirror enable`: the site's mirror is asked first.\n";
        // containerd asks hosts in the order of the file. A value may have lines that look like the head of a table.
        let mut at = 0;
        let mut places = Vec::new();
        for line in text.split_inclusive('\n') {
            if line.trim_start().starts_with('[') {
                places.push(at);
            }
            at += line.len();
        }
        places.push(text.len());
        for place in places {
            let (head, tail) = text.split_at(place);
            let gap = if head.is_empty() || head.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            let space = if tail.is_empty() { "" } else { "\n" };
            let merged = format!("{head}{gap}{note}{}{space}{tail}", self.host());
            if merged.parse::<Table>().is_ok_and(|found| found == expected) {
                return Ok(merged);
            }
        }
        Err("the mirror cannot be added to it; add it by hand, as the first `[host.…]`".to_owned())
    }
}

fn hosts(table: &Table) -> Option<&Table> {
    table.get("host")?.as_table()
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mirror() -> Mirror {
        Mirror {
            url: "https://127.0.0.1:5443".into(),
            authority: Some("/var/lib/outhaul-agent/serve/tls/ca.pem".into()),
        }
    }

    #[test]
    fn alone_nothing_but_the_mirror_is_asked() {
        let text = mirror().alone();
        let table: Table = text.parse().unwrap();
        assert_eq!(table["server"].as_str(), Some("https://127.0.0.1:5443"));
        let host = &table["host"]["https://127.0.0.1:5443"];
        assert_eq!(
            host["ca"].as_str(),
            Some("/var/lib/outhaul-agent/serve/tls/ca.pem")
        );
        assert_eq!(host["capabilities"].as_array().unwrap().len(), 2);
        assert!(mirror().is_in(&text));
        let plain = Mirror {
            url: "http://127.0.0.1:5443".into(),
            authority: None,
        };
        assert!(!plain.alone().contains("ca ="), "{}", plain.alone());
    }

    #[test]
    fn the_mirror_is_put_before_hosts_that_are_there_and_all_else_is_kept() {
        let there = "# ours\nserver = \"https://docker.io\"\nca = [\n  \"/a.pem\",\n]\nclient = [\n  [\"/a.cert\", \"/a.key\"]\n]\n\n\
                     [host.\"https://cache.site\"]\n  capabilities = [\"pull\"]\n[host.\"https://other.site\"]\n";
        let merged = mirror().merged(there).unwrap();
        let own = merged.find("127.0.0.1:5443").unwrap();
        assert!(
            own < merged.find("cache.site").unwrap() && own > merged.find("/a.key").unwrap(),
            "{merged}"
        );
        assert!(
            merged.starts_with("# ours\n") && merged.ends_with("[host.\"https://other.site\"]\n"),
            "{merged}"
        );
        assert!(mirror().is_in(&merged) && !mirror().is_in(there));
    }

    #[test]
    fn a_file_without_hosts_and_one_without_a_last_line_end_are_extended() {
        for there in [
            "",
            "server = \"https://docker.io\"",
            "server = \"https://docker.io\"\n",
        ] {
            let merged = mirror().merged(there).unwrap();
            assert!(
                mirror().is_in(&merged) && merged.starts_with(there),
                "{merged}"
            );
        }
    }

    #[test]
    fn what_cannot_be_extended_is_refused() {
        for (there, why) in [
            ("server = ", "string values must be quoted"),
            ("host = 1\n", "`host` is not a table"),
            ("host = { \"https://a.site\" = {} }\n", "add it by hand"),
        ] {
            let problem = mirror().merged(there).unwrap_err();
            assert!(problem.contains(why), "{there}: {problem}");
        }
    }
}
