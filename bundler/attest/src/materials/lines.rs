//! Lines of a text that nobody has looked at, one at a time.
//!
//! What comes in: a stream. What goes out: each line without its end, cut off after [`MAX_LINE_BYTES`]. Memory stays
//! the same however long a line is.

use std::io::{self, BufRead, BufReader, Read};

/// How much of a line is kept, in bytes: no field that is read here is as long.
const MAX_LINE_BYTES: usize = 4096;

/// Hands each line to `each`.
///
/// # Errors
/// What the stream failed with.
pub fn each_line(from: impl Read, mut each: impl FnMut(&str)) -> io::Result<()> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    let mut is_open = false;
    loop {
        let buffer = from.fill_buf()?;
        if buffer.is_empty() {
            if is_open {
                each(&String::from_utf8_lossy(&line));
            }
            return Ok(());
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = MAX_LINE_BYTES.saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(end.is_some());
        is_open = end.is_none();
        from.consume(used);
        if end.is_some() {
            each(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        each_line(text, |line| found.push(line.to_owned())).unwrap();
        found
    }

    #[test]
    fn lines_end_with_a_line_feed_or_the_text() {
        assert_eq!(lines(b"a\n\nb"), ["a", "", "b"]);
        assert_eq!(lines(b"a\n"), ["a"]);
        assert!(lines(b"").is_empty());
    }

    #[test]
    fn a_line_of_any_length_is_cut_off() {
        let mut text = vec![b'x'; 3 * MAX_LINE_BYTES];
        text.extend_from_slice(b"\nnext");
        let found = lines(&text);
        assert_eq!(found[0].len(), MAX_LINE_BYTES);
        assert_eq!(found[1], "next");
    }
}
