//! What a program that was run says, for assertions.
//!
//! What comes in: its output. What goes out: the code, the texts, and a failure that shows all of it. A program that a
//! signal ended, or that printed no text, fails the test.
#![expect(clippy::unwrap_used, reason = "a test's assertions")]

use std::process::Output;

/// The exit code.
#[track_caller]
pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// Standard error.
#[track_caller]
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Standard output.
#[track_caller]
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Asserts an exit code and every one of these words on standard error.
#[track_caller]
pub fn assert_reports(output: &Output, expected: i32, words: &[&str]) {
    let (printed, shown) = (stderr(output), stdout(output));
    assert_eq!(output.status.code(), Some(expected), "{shown}{printed}");
    for word in words {
        assert!(printed.contains(word), "`{word}` is not in: {printed}");
    }
}
