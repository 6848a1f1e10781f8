//! Files of real writers, taken apart and made again; and bytes that no writer wrote.

use std::io::{Cursor, Write as _};
use std::process::{Command, Stdio};

use flate2::{Compression, GzBuilder};
use proptest::prelude::*;

use super::*;

/// The text and the corrections of `file`.
fn apart(file: &[u8]) -> Result<(Vec<u8>, Vec<u8>), SplitError> {
    let mut text = Vec::new();
    let corrections = split(
        &mut || Ok(Cursor::new(file)),
        &mut text,
        MAX_CORRECTION_BYTES,
    )?;
    Ok((text, corrections))
}

/// The file again, its text in parts of `part` bytes.
fn together(text: &[u8], corrections: Vec<u8>, part: usize) -> Result<Vec<u8>, JoinError> {
    let mut joiner = Joiner::new(corrections)?;
    let mut file = Vec::new();
    for part in text.chunks(part) {
        joiner.write(part, &mut file).unwrap()?;
    }
    joiner.finish(&mut file).unwrap()?;
    Ok(file)
}

/// A file comes back as it was; the bytes of its corrections.
fn comes_back(file: &[u8], text: &[u8]) -> usize {
    let (found, corrections) = apart(file).unwrap();
    assert!(found == text, "another text");
    for part in [1 << 20, 1000] {
        let again = together(text, corrections.clone(), part).unwrap();
        assert!(again == file, "another file");
    }
    corrections.len()
}

/// Text as programs write it: words, with repetitions near and far.
fn words(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut text = Vec::new();
    while text.len() < bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let word = (state >> 33) % 700;
        text.extend_from_slice(format!("{word}-word{} ", word * word % 97).as_bytes());
        if state >> 60 == 0 {
            let from = text.len().saturating_sub((state >> 40) as usize % 60_000);
            let again: Vec<u8> = text[from..].iter().take(400).copied().collect();
            text.extend(again);
        }
    }
    text
}

fn miniz(text: &[u8], level: u32) -> Vec<u8> {
    let mut writer = GzBuilder::new()
        .filename("layer.tar")
        .comment("of a test")
        .write(Vec::new(), Compression::new(level));
    writer.write_all(text).unwrap();
    writer.finish().unwrap()
}

/// What a command makes of a text; `None` where it is not there.
fn command(program: &str, arguments: &[&str], text: &[u8]) -> Option<Vec<u8>> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let text = text.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&text).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success());
    Some(output.stdout)
}

#[test]
fn a_file_of_any_level_comes_back_byte_for_byte() {
    let text = words(120_000);
    for level in 0..=9 {
        comes_back(&miniz(&text, level), &text);
    }
    comes_back(&miniz(b"", 6), b"");
    comes_back(&miniz(b"a", 6), b"a");
}

#[test]
fn gnu_gzip_leaves_few_corrections() {
    let text = words(600_000);
    for level in ["-4", "-6", "-9"] {
        let Some(file) = command("gzip", &["-n", level], &text) else {
            println!("SKIPPED: there is no `gzip`");
            return;
        };
        let corrections = comes_back(&file, &text);
        assert!(
            corrections * 100 < file.len(),
            "{level}: {corrections} bytes of corrections for {}",
            file.len()
        );
    }
}

#[test]
fn members_and_what_follows_them_come_back() {
    let text = words(20_000);
    let mut file = Vec::new();
    for part in text.chunks(2000) {
        file.extend(miniz(part, 9));
        file.extend(miniz(b"", 9));
    }
    comes_back(&file, &text);
    for tail in [&[0; 512][..], b"\x1f", b"\x1f\x8b", b"after"] {
        let mut file = file.clone();
        file.extend_from_slice(tail);
        comes_back(&file, &text);
    }
}

#[test]
fn a_text_is_written_up_to_its_limit() {
    let long = words(200_000);
    let file = [miniz(&long, 6), miniz(b"and more", 6)].concat();
    let whole = [long.as_slice(), b"and more"].concat();
    let mut out = Vec::new();
    assert_eq!(
        text(file.as_slice(), &mut out, whole.len() as u64).unwrap(),
        whole.len() as u64
    );
    assert!(out == whole);
    out.clear();
    let error = text(file.as_slice(), &mut out, 100).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::FileTooLarge);
    assert!(out == whole[..100]);
}

#[test]
fn what_is_damaged_or_is_not_gzip_is_not_taken_apart() {
    let file = miniz(&words(5000), 6);
    for cut in [0, 1, 9, 40, file.len() / 2, file.len() - 1] {
        assert!(apart(&file[..cut]).is_err(), "{cut}");
    }
    let mut wrong = file.clone();
    *wrong.last_mut().unwrap() ^= 1;
    let error = apart(&wrong).unwrap_err();
    assert_eq!(
        error.to_string(),
        "it cannot be decoded as gzip: its checksum does not hold"
    );
    assert!(apart(b"\x28\xb5\x2f\xfd").is_err());
    let mut text = Vec::new();
    let error = split(&mut || Ok(Cursor::new(&file)), &mut text, 10).unwrap_err();
    assert!(matches!(error, SplitError::Corrections));
}

#[test]
fn a_text_that_is_not_the_one_of_the_corrections_is_refused_or_makes_another_file() {
    let text = words(20_000);
    let file = miniz(&text, 6);
    let (_, corrections) = apart(&file).unwrap();
    let cut = &text[..text.len() - 1];
    assert!(together(cut, corrections.clone(), 4096).is_err());
    let mut longer = text.clone();
    longer.push(0);
    assert!(together(&longer, corrections.clone(), 4096).is_err());
    let mut other = text.clone();
    other[10] ^= 1;
    assert_ne!(together(&other, corrections, 4096).ok(), Some(file));
}

proptest! {
    #[test]
    fn any_text_comes_back(
        text in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), any::<u8>()], 0..3000),
        level in 0u32..=9,
        part in 1usize..500,
    ) {
        let file = miniz(&text, level);
        let (found, corrections) = apart(&file).unwrap();
        prop_assert_eq!(&found, &text);
        prop_assert_eq!(together(&text, corrections, part).unwrap(), file);
    }
}
