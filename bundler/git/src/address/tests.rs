//! Addresses: every spelling of a forbidden one is forbidden.

use super::*;

fn check(url: &str) -> Result<Option<Vec<IpAddr>>, AddressError> {
    AllowedHosts::default().check(&Address::parse(url)?)
}

#[test]
fn folders_are_no_addresses_however_they_are_written() {
    for url in [
        "/srv/fleet",
        "../fleet",
        "fleet",
        "./a:b",
        "file:///srv/fleet",
        "FILE:///srv/fleet",
        "file://localhost/srv/fleet",
        "~/fleet",
    ] {
        let error = check(url).unwrap_err();
        assert!(
            matches!(error, AddressError::Local { .. }),
            "{url}: {error}"
        );
        assert!(error.help().contains("--source"), "{error:?}");
    }
}

#[test]
fn programs_and_options_are_no_addresses() {
    for url in [
        "ext::sh -c id",
        "ext::sh",
        "ext::[x",
        "ext::[x]:y",
        "fd::17",
        "transport::address",
        "--upload-pack=touch x",
        "-oProxyCommand=touch:x",
        "ssh://-oProxyCommand=touch/x",
        "ssh://-oProxyCommand=touch@host/x",
        "ssh://host/-x",
        "host:-x",
        "git@-host:x",
        "gopher://host/x",
        "ftp://host/x",
        "https://host/a\nb",
        "https://host%0ahost=other/x",
        "https://host\\@127.0.0.1/x",
        "https://a b/x",
        "https:///x",
        "https://host:port/x",
        "https://host:99999/x",
        "",
    ] {
        let error = Address::parse(url).unwrap_err();
        assert!(
            matches!(error, AddressError::NotAUrl { .. }),
            "{url}: {error}"
        );
    }
}

#[test]
fn this_machine_has_many_spellings_and_none_is_asked() {
    for host in [
        "localhost",
        "LOCALHOST",
        "localhost.",
        "a.localhost",
        "127.0.0.1",
        "127.9.9.9",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0.0.0.0",
        "0",
        "169.254.169.254",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "user@127.0.0.1",
        "127.0.0.1:8443",
    ] {
        for url in [
            format!("https://{host}/x"),
            format!("HTTP://{host}/x"),
            format!("ssh://{host}/x"),
        ] {
            let error = check(&url).unwrap_err();
            assert!(
                matches!(error, AddressError::Inside { .. }),
                "{url}: {error}"
            );
            assert!(error.help().contains("--allow-host"), "{error:?}");
        }
    }
    let error = check("git@127.0.0.1:x").unwrap_err();
    assert!(matches!(error, AddressError::Inside { .. }), "{error}");
}

#[test]
fn a_list_opens_a_host_or_one_port_of_it() {
    let allowed = AllowedHosts::parse(&["127.0.0.1:3000", "[::1]", "Git.Factory.example"]).unwrap();
    let may = |url: &str| allowed.check(&Address::parse(url).unwrap()).is_ok();
    assert!(may("http://127.0.0.1:3000/x"));
    assert!(may("git://[::1]:77/x"));
    assert!(may("http://git.factory.example/x"));
    assert!(!may("http://127.0.0.1:3001/x"));
    assert!(!may("http://other.example/x"));
    for text in ["", "a/b", "a@b", "https://a", "a:b"] {
        assert!(AllowedHosts::parse(&[text]).is_err(), "{text}");
    }
}

#[test]
fn what_is_plain_or_holds_a_password_is_refused_and_the_password_not_shown() {
    for url in [
        "http://192.0.2.1/x",
        "HTTP://192.0.2.1/x",
        "git://192.0.2.1/x",
    ] {
        let error = check(url).unwrap_err();
        assert!(
            matches!(error, AddressError::Plain { .. }),
            "{url}: {error}"
        );
    }
    let error = check("https://me:hunter2@192.0.2.1/x").unwrap_err();
    assert!(matches!(error, AddressError::Password { .. }), "{error}");
    assert!(!format!("{error:?}").contains("hunter2"));
    assert!(check("https://org@192.0.2.1/x").is_ok());
    assert!(check("git@192.0.2.1:team/app.git").is_ok());
}

#[test]
fn spelling_does_not_matter_and_secrets_are_left_out() {
    let address = Address::parse("HTTPS://Me@Git.Example:8443/Team/App.git?x").unwrap();
    assert_eq!(
        address.canonical(),
        "https://Me@git.example:8443/Team/App.git?x"
    );
    assert_eq!(address.scheme(), Scheme::Https);
    assert_eq!((address.host(), address.port()), ("git.example", 8443));
    for (text, shown) in [
        (
            "see https://me:hunter2@a/b and `http://x:y@z`",
            "see https://…@a/b and `http://…@z`",
        ),
        (
            "https://ghp_0123456789abcdefghij@github.com/a",
            "https://…@github.com/a",
        ),
        ("https://org@dev.azure.com/a", "https://org@dev.azure.com/a"),
        ("a@b://c", "a@b://c"),
    ] {
        assert_eq!(without_secrets(text), shown);
    }
}
