//! What a site may set: each rule, each form of the file, and indexes whose rules contradict what they hold.

use super::*;
use crate::Index;
use crate::fake::FakeBundle;
use crate::index::{FORMAT, FORMAT_WITH_SITE_RULES};
use crate::limits::Limits;

fn rule(allowed: Allowed) -> Rule {
    Rule {
        about: String::new(),
        allowed,
    }
}

fn declared(form: Form) -> SiteValues {
    let width = Allowed::Integer {
        minimum: 20,
        maximum: 110,
    };
    let text = Allowed::Text {
        max_length: 40,
        pattern: None,
    };
    let line = Allowed::Text {
        max_length: 8,
        pattern: "[A-Z]{1,4}-[0-9]+".parse().ok(),
    };
    let tray = ["left", "right"].map(str::to_owned);
    let keys = [
        ("CUT", Allowed::Boolean),
        ("LINE", line),
        ("TEXT", text),
        ("TRAY", Allowed::Enum(tray.into())),
        ("WIDTH", width),
    ];
    let keys = keys.map(|(key, allowed)| (key.to_owned(), rule(allowed)));
    SiteValues {
        form,
        keys: keys.into(),
    }
}

fn values(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn central() -> BTreeMap<String, String> {
    values(&[
        ("CUT", "true"),
        ("LINE", "A-1"),
        ("TEXT", "Made $5 \"here\""),
        ("TRAY", "left"),
        ("WIDTH", "62"),
    ])
}

#[test]
fn each_form_has_a_line_for_each_key_and_the_site_s_values_take_their_places() {
    let own = values(&[("TEXT", "it's `ours` \\o/: #1"), ("WIDTH", "70")]);
    let mut shown = String::new();
    for form in Form::ALL {
        let declared = declared(form);
        let file = declared.file("dev-press", &central()).unwrap();
        let changed = declared.with(&file, &own).unwrap();
        for (key, value) in own.iter().chain(&central()) {
            let expected = own.get(key).unwrap_or(value);
            assert_eq!(declared.value_in(&changed, key).as_ref(), Some(expected));
            let before = central()[key].clone();
            assert_eq!(declared.value_in(&file, key), Some(before));
        }
        assert_eq!(declared.with(&file, &BTreeMap::new()).unwrap(), file);
        assert_eq!(declared.with(&changed, &central()).unwrap(), file);
        shown.push_str(&format!("--- {}\n{changed}", form.file()));
    }
    insta::assert_snapshot!(shown);
}

#[test]
fn values_that_are_not_allowed_are_refused_with_what_is() {
    let declared = declared(Form::Env);
    let check = |key: &str, value: &str| declared.rule(key).and_then(|rule| rule.check(key, value));
    for (key, value) in [
        ("WIDTH", "20"),
        ("WIDTH", "110"),
        ("CUT", "false"),
        ("TRAY", "right"),
        ("LINE", "AB-12"),
        ("TEXT", ""),
    ] {
        check(key, value).unwrap();
    }
    let long = "x".repeat(300);
    let refused = [
        ("WIDTH", "19"),
        ("WIDTH", "111"),
        ("WIDTH", "062"),
        ("WIDTH", "+62"),
        ("WIDTH", "62.0"),
        ("WIDTH", ""),
        ("WIDTH", "99999999999999999999"),
        ("CUT", "yes"),
        ("CUT", "True"),
        ("TRAY", "middle"),
        ("LINE", "A1"),
        ("LINE", "ABCD-12345"),
        ("TEXT", "two\nlines"),
        ("TEXT", "a\u{2028}b"),
        ("TEXT", "a\u{0}b"),
        ("TEXT", &long),
        ("OTHER", "1"),
    ];
    let mut reported = String::new();
    for (key, value) in refused {
        let error = check(key, value).unwrap_err();
        reported.push_str(&format!("{error}\n"));
    }
    insta::assert_snapshot!(reported);
}

#[test]
fn a_declaration_that_contradicts_itself_is_refused() {
    let problem = |change: &dyn Fn(&mut SiteValues)| {
        let mut declared = declared(Form::Env);
        change(&mut declared);
        declared.problem().unwrap()
    };
    let with = |key: &str, allowed: Allowed| {
        let key = key.to_owned();
        problem(&|declared| drop(declared.keys.insert(key.clone(), rule(allowed.clone()))))
    };
    assert!(problem(&|declared| declared.keys.clear()).contains("0 open keys"));
    assert!(with("a-b", Allowed::Boolean).contains("is not a key"));
    assert!(with("1A", Allowed::Boolean).contains("is not a key"));
    assert!(with("A", Allowed::Enum(BTreeSet::new())).contains("0 choices"));
    assert!(with("A", Allowed::Enum(["a\nb".to_owned()].into())).contains("one line"));
    assert!(
        with(
            "A",
            Allowed::Integer {
                minimum: 2,
                maximum: 1
            }
        )
        .contains("is more than")
    );
    assert!(
        with(
            "A",
            Allowed::Text {
                max_length: 0,
                pattern: None
            }
        )
        .contains("a length of 0")
    );
    assert_eq!(declared(Form::Env).problem(), None);
}

fn index() -> Index {
    let mut index = FakeBundle::new(4, &[("site-values.env", b"WIDTH=\"62\"\n")])
        .unwrap()
        .index;
    index.assignments[0].site_values = Some(declared(Form::Env));
    index.format = FORMAT_WITH_SITE_RULES.to_owned();
    index
}

#[test]
fn an_older_reader_refuses_an_index_with_open_values_by_its_format() {
    let read = |index: &Index| {
        let read = Index::from_bytes(&index.to_bytes(), &Limits::default());
        read.map_err(|error| error.to_string())
    };
    assert_eq!(read(&index()).unwrap(), index());
    let mut older = index();
    older.format = FORMAT.to_owned();
    let error = read(&older).unwrap_err();
    assert!(error.contains(FORMAT_WITH_SITE_RULES), "{error}");
    let mut lacking = index();
    lacking.assignments[0].site_values.as_mut().unwrap().form = Form::Vars;
    let error = read(&lacking).unwrap_err();
    assert!(
        error.contains("`site-values.yaml` is not one of its files"),
        "{error}"
    );
}

#[test]
fn attack_a_value_cannot_add_a_line_or_end_its_quotes() {
    let attempts = [
        "\" EVIL=\"1",
        "$(reboot)",
        "`reboot`",
        "\\\" x",
        "a: b",
        "{{ lookup('pipe','id') }}",
        "#",
        "'",
        "\\",
    ];
    for form in Form::ALL {
        let declared = declared(form);
        let file = declared.file("ns", &central()).unwrap();
        for attempt in attempts {
            let changed = declared.with(&file, &values(&[("TEXT", attempt)])).unwrap();
            assert_eq!(changed.lines().count(), file.lines().count());
            assert_eq!(
                declared.value_in(&changed, "TEXT").as_deref(),
                Some(attempt)
            );
        }
    }
}
