//! Tests of sealing: who can open, who cannot, and what an untrusted change to the bytes does.
use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;

use super::*;

fn sealed(bytes: &[u8], keys: &[&Identity]) -> Vec<u8> {
    let recipients: Vec<_> = keys.iter().map(|key| key.recipient()).collect();
    let mut out = Vec::new();
    assert_eq!(
        seal(bytes, &mut out, &recipients).unwrap(),
        bytes.len() as u64
    );
    out
}

fn opened(bytes: &[u8], key: &Identity) -> Result<Vec<u8>, SealError> {
    let mut out = Vec::new();
    open(
        bytes,
        &Identities::new(vec![key.clone()]),
        &mut out,
        1 << 20,
    )?;
    Ok(out)
}

#[test]
fn each_recipient_opens_and_nobody_else() {
    let [one, two, other] = [(); 3].map(|()| Identity::generate());
    let bytes = sealed(b"the key of the cabinet", &[&one, &two]);
    assert!(!bytes.windows(7).any(|part| part == b"cabinet"));
    for key in [&one, &two] {
        assert_eq!(opened(&bytes, key).unwrap(), b"the key of the cabinet");
    }
    let error = opened(&bytes, &other).unwrap_err();
    assert!(matches!(error, SealError::NotForUs { .. }), "{error}");
    assert!(
        error.to_string().contains(&other.recipient().id()),
        "{error}"
    );
}

#[test]
fn sizes_around_a_piece_of_the_stream_survive() {
    let key = Identity::generate();
    for size in [0, 1, 65_535, 65_536, 65_537, 200_000] {
        let bytes: Vec<u8> = (0..size).map(|at: u32| at.to_le_bytes()[0]).collect();
        assert_eq!(opened(&sealed(&bytes, &[&key]), &key).unwrap(), bytes);
    }
}

#[test]
fn attack_truncated_anywhere() {
    let key = Identity::generate();
    let bytes = sealed(&vec![7; 70_000], &[&key]);
    let cuts = (0..400).chain((400..bytes.len()).step_by(997));
    for cut in cuts.chain([bytes.len() - 1]) {
        let error = opened(&bytes[..cut], &key).unwrap_err();
        let is_cut = matches!(
            error,
            SealError::Truncated | SealError::Damaged | SealError::NotSealed { .. }
        );
        assert!(is_cut, "cut at {cut}: {error}");
    }
}

#[test]
fn attack_one_byte_changed_anywhere() {
    let key = Identity::generate();
    let bytes = sealed(b"short", &[&key]);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert!(opened(&changed, &key).is_err(), "byte {at}");
    }
}

#[test]
fn attack_bytes_after_the_end() {
    let key = Identity::generate();
    let mut bytes = sealed(b"short", &[&key]);
    bytes.push(0);
    assert!(opened(&bytes, &key).is_err());
}

#[test]
fn attack_endless_head() {
    let key = Identities::new(vec![Identity::generate()]);
    let endless = b"age-encryption.org/v1\n".chain(io::repeat(b'-'));
    let error = open(endless, &key, io::sink(), 10).unwrap_err();
    assert!(error.to_string().contains("too long"), "{error}");
    let lines = b"age-encryption.org/v1\n".chain(io::repeat(b'\n'));
    assert!(open(lines, &key, io::sink(), 10).is_err());
}

#[test]
fn no_more_comes_out_than_may() {
    let key = Identity::generate();
    let bytes = sealed(&[1; 100], &[&key]);
    let keys = Identities::new(vec![key]);
    assert_eq!(open(&*bytes, &keys, io::sink(), 100).unwrap(), 100);
    let error = open(&*bytes, &keys, io::sink(), 99).unwrap_err();
    assert!(
        matches!(error, SealError::TooLarge { max_bytes: 99 }),
        "{error}"
    );
}

#[test]
fn recipients_are_one_to_256() {
    let key = Identity::generate().recipient();
    assert!(seal(&b""[..], io::sink(), &[]).is_err());
    assert_eq!(MAX_SEAL_RECIPIENTS, 256);
    let many = vec![key; MAX_SEAL_RECIPIENTS + 1];
    assert!(seal(&b""[..], io::sink(), &many).is_err());
    let mut out = Vec::new();
    let last = Identity::generate();
    let mut most = many[..MAX_SEAL_RECIPIENTS - 1].to_vec();
    most.push(last.recipient());
    seal(&b"x"[..], &mut out, &most).unwrap();
    assert_eq!(opened(&out, &last).unwrap(), b"x");
}

#[test]
fn a_key_file_is_its_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("site.age");
    let key = Identity::generate();
    key.save(&path).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = Identity::load(&path).unwrap();
    assert_eq!(again.recipient(), key.recipient());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    let error = Identity::load(&path).unwrap_err();
    assert!(
        matches!(&error, SealError::File(error) if error.help().contains("chmod 600")),
        "{error}"
    );
}

#[test]
fn a_folder_gives_all_its_keys_and_a_missing_one_none() {
    let dir = tempfile::tempdir().unwrap();
    assert!(
        Identities::load_folder(&dir.path().join("none"))
            .unwrap()
            .is_empty()
    );
    let [one, two] = [(); 2].map(|()| Identity::generate());
    one.save(&dir.path().join("site.age")).unwrap();
    two.save(&dir.path().join("stream.age")).unwrap();
    std::fs::write(dir.path().join("README"), "not a key").unwrap();
    let keys = Identities::load_folder(dir.path()).unwrap();
    let mut out = Vec::new();
    open(&*sealed(b"x", &[&two]), &keys, &mut out, 1).unwrap();
    assert_eq!(out, b"x");
    let described = keys.describe();
    assert!(described.contains(&one.recipient().id()), "{described}");
    std::fs::write(dir.path().join("bad.age"), "AGE-SECRET-KEY-1X").unwrap();
    assert!(Identities::load_folder(dir.path()).is_err());
}

#[test]
fn no_message_shows_a_secret() {
    let key = Identity::generate();
    let secret = key.0.to_string().expose_secret().to_owned();
    let error = secret.parse::<Recipient>().unwrap_err();
    for text in [error.to_string(), format!("{error:?}{key:?}")] {
        assert!(!text.contains(&secret[16..]), "{text}");
    }
    assert!("age1qqqq".parse::<Recipient>().is_err());
}

#[test]
fn text_of_a_recipient_round_trips() {
    let recipient = Identity::generate().recipient();
    let again: Recipient = recipient.to_string().parse().unwrap();
    assert_eq!(again, recipient);
    assert_eq!(recipient.id().len(), 16);
}

proptest! {
    #[test]
    fn foreign_bytes_never_panic(head in any::<bool>(), bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let keys = Identities::new(vec![Identity::generate()]);
        let mut all = if head { b"age-encryption.org/v1\n-> X25519 ".to_vec() } else { Vec::new() };
        all.extend(bytes);
        prop_assert!(open(&*all, &keys, io::sink(), 100).is_err());
    }
}
