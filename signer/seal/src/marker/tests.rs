//! Tests of markers: what comes back, in every place of a file, and what is refused.
use proptest::prelude::*;

use super::*;
use crate::Identity;

struct Site {
    keys: Identities,
    recipient: Recipient,
}

fn site() -> Site {
    let key = Identity::generate();
    Site {
        recipient: key.recipient(),
        keys: Identities::new(vec![key]),
    }
}

const HERE: MarkerContext<'static> = MarkerContext {
    fleet: "0123456789abcdef",
    environment: "dev",
    workload: "printer",
};

fn bound() -> Binding {
    "0123456789abcdef/dev/printer/PASSWORD".parse().unwrap()
}

fn unsealed(text: &str, keys: &Identities, syntax: Syntax) -> Result<Unsealed, MarkerError> {
    unseal_values(text, keys, syntax, &HERE)
}

impl Site {
    fn marker(&self, value: &str) -> String {
        seal_value(value, std::slice::from_ref(&self.recipient), &bound()).unwrap()
    }

    /// `template` with `@` as a marker of `value`, then unsealed.
    fn through(&self, template: &str, value: &str, syntax: Syntax) -> Result<String, MarkerError> {
        let text = template.replace('@', &self.marker(value));
        unsealed(&text, &self.keys, syntax).map(|opened| opened.text.to_string())
    }
}

/// Spaces, quotes, colons, a hash: everything that YAML may trip over.
const AWKWARD: &str = "p: \"a\" 'b' #c \\ {d}";

#[test]
fn a_marker_is_one_word_that_nothing_changes_on_the_way() {
    let marker = site().marker("value");
    assert!(marker.starts_with("ENC[age,") && marker.ends_with(']'));
    let inner = &marker[OPENING.len()..marker.len() - 1];
    assert!(
        inner
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-_.,/+".contains(&b))
    );
    assert!(may_have_markers(marker.as_bytes()) && !may_have_markers(b"ENC[aes,"));
}

#[test]
fn values_go_into_plain_text_as_they_are() {
    let found = site()
        .through("a=@\nb=@;@\n# @", AWKWARD, Syntax::Plain)
        .unwrap();
    assert_eq!(
        found,
        format!("a={AWKWARD}\nb={AWKWARD};{AWKWARD}\n# {AWKWARD}")
    );
}

#[test]
fn a_value_never_becomes_syntax_of_yaml() {
    let site = site();
    let quoted = serde_json::to_string(AWKWARD).unwrap();
    let inner = &quoted[1..quoted.len() - 1];
    let single = AWKWARD.replace('\'', "''");
    for (template, expected) in [
        ("a: @", format!("a: {quoted}")),
        ("a: @ # remark\n", format!("a: {quoted} # remark\n")),
        (
            "- @\n- x: @\n  y: @\n",
            format!("- {quoted}\n- x: {quoted}\n  y: {quoted}\n"),
        ),
        ("a: \"x @ y\"", format!("a: \"x {inner} y\"")),
        ("a: 'x @ y'", format!("a: 'x {single} y'")),
        (
            "{\"a\":\"@\",\"b\": [\"@\"]}",
            format!("{{\"a\":\"{inner}\",\"b\": [\"{inner}\"]}}"),
        ),
        ("it's: \"@\"", format!("it's: \"{inner}\"")),
        ("a: \"\\\"@\"", format!("a: \"\\\"{inner}\"")),
        (
            "a: |\n  x=@\n\n  y=@\nb: @\n",
            format!("a: |\n  x={AWKWARD}\n\n  y={AWKWARD}\nb: {quoted}\n"),
        ),
        (
            "- a: >-\n    @\n  b: @\n",
            format!("- a: >-\n    {AWKWARD}\n  b: {quoted}\n"),
        ),
        (
            "- |2+ # text\n  @\n- @\n",
            format!("- |2+ # text\n  {AWKWARD}\n- {quoted}\n"),
        ),
        (
            "k: !tag &x |\n  @\nb: @\n",
            format!("k: !tag &x |\n  {AWKWARD}\nb: {quoted}\n"),
        ),
    ] {
        assert_eq!(
            site.through(template, AWKWARD, Syntax::Yaml).unwrap(),
            expected,
            "{template}"
        );
    }
}

#[test]
fn what_yaml_reads_is_the_value() {
    let site = site();
    for value in [
        "12345",
        "yes",
        "null",
        "-",
        "",
        "a: b",
        "- x",
        "two\nlines\n",
        "tab\there",
        "ü€",
        "'",
        "\"",
    ] {
        if value.is_empty() {
            continue;
        }
        for template in ["a: @\n", "a: \"@\"\n", "{\"a\": \"@\"}", "a:\n- @\n"] {
            let text = site.through(template, value, Syntax::Yaml).unwrap();
            let json = text
                .trim_start_matches("a:")
                .trim()
                .trim_start_matches("- ");
            let read: serde_json::Value = serde_json::from_str(json).unwrap();
            let read = read.get("a").unwrap_or(&read).as_str().unwrap().to_owned();
            assert_eq!(read, value, "{template}");
        }
    }
}

#[test]
fn where_a_place_cannot_hold_a_value_the_line_is_named() {
    let site = site();
    for (template, value) in [
        ("x: 1\nurl: https://u:@@host\n", "a b"),
        ("x: 1\nurl: pre @\n", "a: b"),
        ("x: 1\na: 'x @'\n", "two\nlines"),
        ("x: |\n  @\n", "two\nlines"),
    ] {
        let error = site.through(template, value, Syntax::Yaml).unwrap_err();
        assert!(
            matches!(error, MarkerError::Marker { line: 2, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("help: "), "{error}");
        assert!(!error.to_string().contains(value), "{error}");
    }
    let found = site
        .through("url: https://u:@/host", "s3cr3t%21", Syntax::Yaml)
        .unwrap();
    assert_eq!(found, "url: https://u:s3cr3t%21/host");
}

#[test]
fn a_value_does_not_break_out_of_quotes_in_other_syntaxes() {
    let site = site();
    for (line, value) in [
        ("export A=\"x @ y\"", "a \" b"),
        ("export A=\"@\"", "$(reboot)"),
        ("A='@'", "it's"),
    ] {
        let error = site.through(line, value, Syntax::Plain).unwrap_err();
        assert!(error.to_string().contains("line 1"), "{error}");
        let block = format!("k: |\n  {line}\n");
        assert!(site.through(&block, value, Syntax::Yaml).is_err());
    }
    let found = site.through("export A=\"@\" # it's", "a b#c", Syntax::Plain);
    assert_eq!(found.unwrap(), "export A=\"a b#c\" # it's");
}

#[test]
fn comments_keep_their_markers_sealed() {
    let site = site();
    let text = format!("# was: {}\na: b\n", site.marker("old"));
    let opened = unsealed(&text, &site.keys, Syntax::Yaml).unwrap();
    assert_eq!(
        (opened.text.as_str(), opened.values.len()),
        (text.as_str(), 0)
    );
}

#[test]
fn what_only_resembles_a_marker_is_left_alone() {
    for text in [
        "ENC[age,]",
        "ENC[age,a b]",
        "ENC[age,<base64>]",
        "ENC[age,abc",
        "ENC[AES256_GCM,data:x]",
        "ENC[age,ENC[age,",
    ] {
        let opened = unsealed(text, &Identities::default(), Syntax::Yaml).unwrap();
        assert_eq!(opened.text.as_str(), text);
    }
}

#[test]
fn attack_sealed_for_another_site() {
    let (ours, theirs) = (site(), site());
    let text = format!("ok: {}\nbad: {}\n", ours.marker("x"), theirs.marker("y"));
    let error = unsealed(&text, &ours.keys, Syntax::Yaml).unwrap_err();
    let printed = error.to_string();
    assert!(
        printed.contains("line 2") && printed.contains("sealed for others"),
        "{printed}"
    );
    assert!(printed.contains(&ours.recipient.id()), "{printed}");
}

/// Team A's value in team B's file, in another environment, in another fleet; with its names changed to fit; and
/// one of the time before values were bound.
#[test]
fn attack_a_value_of_another_place() {
    let site = site();
    let marker = site.marker("of team A");
    let open = |marker: &str, here: MarkerContext<'_>| {
        let opened = unseal_values(marker, &site.keys, Syntax::Plain, &here);
        opened.map(|opened| opened.text.to_string())
    };
    assert!(open(&marker, HERE).is_ok());
    let (fleet, environment, workload) = ("fedcba9876543210", "prod", "scanner");
    for (place, words) in [
        (
            MarkerContext { workload, ..HERE },
            "workload `printer`, and this is workload `scanner`",
        ),
        (
            MarkerContext {
                environment,
                ..HERE
            },
            "environment `dev`, and this is environment `prod`",
        ),
        (
            MarkerContext { fleet, ..HERE },
            "this is fleet `fedcba9876543210`",
        ),
    ] {
        let printed = open(&marker, place).unwrap_err().to_string();
        assert!(printed.contains(words), "{printed}");
        let fitted = format!(
            "{}/{}/{}/PASSWORD",
            place.fleet, place.environment, place.workload
        );
        let fitted = marker.replace(&bound().to_string(), &fitted);
        let printed = open(&fitted, place).unwrap_err().to_string();
        assert!(
            printed.contains("not those that it was sealed with"),
            "{printed}"
        );
    }
    let renamed = marker.replace("PASSWORD", "MOTTO");
    let printed = open(&renamed, HERE).unwrap_err().to_string();
    assert!(
        printed.contains("not those that it was sealed with"),
        "{printed}"
    );
    let mut old = Vec::new();
    seal(
        &b"of team A"[..],
        &mut old,
        std::slice::from_ref(&site.recipient),
    )
    .unwrap();
    let old = URL_SAFE_NO_PAD.encode(old);
    for old in [
        format!("{OPENING}{old}]"),
        format!("{OPENING}{},{old}]", bound()),
    ] {
        let printed = open(&old, HERE).unwrap_err().to_string();
        assert!(printed.contains("seal it again"), "{printed}");
    }
    let two: Binding = Binding::new("f", "dev", ["b".to_owned(), "a".to_owned()], "K").unwrap();
    assert_eq!(two.to_string(), "f/dev/a+b/K");
    assert_eq!(
        bindings(&format!("{marker} {}", "ENC[age,QUJD]")),
        [Some(bound()), None]
    );
    for bad in [
        "f/dev/b+a/K",
        "f/dev//K",
        "f/dev/a/K/x",
        "f/dev/a/",
        "f//a/K",
        "/dev/a/K",
    ] {
        assert!(bad.parse::<Binding>().is_err(), "{bad}");
    }
}

#[test]
fn attack_cut_off_and_changed_markers() {
    let site = site();
    let marker = site.marker("a value of some length");
    let (_, body) = parts(&marker);
    let head = format!("{OPENING}{},", bound());
    for cut in [1, 4, 30, body.len() / 2, body.len() - 1] {
        let text = format!("a: {head}{}]", &body[..cut]);
        assert!(unsealed(&text, &site.keys, Syntax::Yaml).is_err(), "{cut}");
    }
    for at in (0..body.len()).step_by(7) {
        let other = if body.as_bytes()[at] == b'A' {
            "B"
        } else {
            "A"
        };
        let text = format!("{head}{}{other}{}]", &body[..at], &body[at + 1..]);
        assert!(unsealed(&text, &site.keys, Syntax::Plain).is_err(), "{at}");
    }
}

#[test]
fn bounds_hold() {
    let site = site();
    let ours = std::slice::from_ref(&site.recipient);
    for bad in ["", "a\0b", "\u{1b}[0m", &"x".repeat(MAX_VALUE_BYTES + 1)] {
        assert!(seal_value(bad, ours, &bound()).is_err());
    }
    let longest = "x".repeat(MAX_VALUE_BYTES);
    assert_eq!(site.through("@", &longest, Syntax::Plain).unwrap(), longest);
    let mut sealed = Vec::new();
    let larger = bound().around(&"x".repeat(MAX_VALUE_BYTES + 1));
    seal(larger.as_bytes(), &mut sealed, ours).unwrap();
    let body = URL_SAFE_NO_PAD.encode(sealed);
    let marker = format!("{OPENING}{},{body}]", bound());
    assert!(unsealed(&marker, &site.keys, Syntax::Plain).is_err());
    let many = site.marker("x").repeat(MAX_MARKERS + 1);
    let error = unsealed(&many, &site.keys, Syntax::Plain).unwrap_err();
    assert!(matches!(error, MarkerError::TooMuch { .. }), "{error}");
}

#[test]
fn values_are_escaped_in_properties() {
    let through = |value: &str| {
        site()
            .through("a=@\nb=x @\n", value, Syntax::Properties)
            .unwrap()
    };
    assert_eq!(through("p#!=: q"), "a=p#!=: q\nb=x p#!=: q\n");
    assert_eq!(
        through(" c:\\temp\nb=\u{fc}\u{1f511}"),
        "a=\\ c:\\\\temp\\nb=\\u00fc\\ud83d\\udd11\nb=x \\ c:\\\\temp\\nb=\\u00fc\\ud83d\\udd11\n"
    );
}

#[test]
fn nothing_that_is_printed_shows_a_value() {
    let site = site();
    let text = site.marker("hunter2");
    let opened = unsealed(&text, &site.keys, Syntax::Plain).unwrap();
    assert_eq!(opened.values[0].as_str(), "hunter2");
    assert_eq!(format!("{opened:?}"), "Unsealed(1 values)");
}

#[test]
fn the_syntax_of_files_follows_from_their_names() {
    for (name, syntax) in [
        ("a.yaml", Syntax::Yaml),
        ("B.YML", Syntax::Yaml),
        ("x.y.json", Syntax::Yaml),
        ("platform-config.properties", Syntax::Properties),
        ("a.conf", Syntax::Plain),
        ("yamlet", Syntax::Plain),
    ] {
        assert_eq!(Syntax::of_file(name), syntax, "{name}");
    }
}

proptest! {
    #[test]
    fn foreign_text_never_panics_and_is_left_alone(text in "[ENCage,\\[\\]\"'|>:# \\n\\\\A-Za-z0-9-]{0,200}") {
        for syntax in [Syntax::Plain, Syntax::Properties, Syntax::Yaml] {
            if let Ok(opened) = unsealed(&text, &Identities::default(), syntax) {
                prop_assert_eq!(opened.text.as_str(), text.as_str());
            }
        }
    }

    #[test]
    fn any_value_comes_back_from_a_whole_scalar(value in "[^\\p{Cc}]{1,50}") {
        let site = site();
        let text = site.through("a: @", &value, Syntax::Yaml).unwrap();
        let read: String = serde_json::from_str(text.strip_prefix("a: ").unwrap()).unwrap();
        prop_assert_eq!(read, value);
    }
}
