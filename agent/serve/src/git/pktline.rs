//! Git's packet lines: four hexadecimal digits of length, then the content.
//!
//! What comes in: the bytes of a request. What goes out: its packets, or that it has none; and packets for an
//! answer. Nothing is copied while reading, and no length is trusted before the bytes are there.

/// Most bytes in one packet, its length included.
pub const MAX_PACKET: usize = 65_520;

/// One packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'b> {
    /// A line or data.
    Data(&'b [u8]),
    /// `0000`: the end of a message or a list.
    Flush,
    /// `0001`: the end of a section.
    Delimiter,
    /// `0002`: the end of an answer.
    End,
}

/// The bytes are not packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the request is not made of packet lines")]
pub struct Malformed;

/// The packets in some bytes.
#[derive(Debug, Clone)]
pub struct Packets<'b>(pub &'b [u8]);

impl<'b> Iterator for Packets<'b> {
    type Item = Result<Packet<'b>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.0 = &[];
        }
        Some(read)
    }
}

impl<'b> Packets<'b> {
    fn read(&mut self) -> Result<Packet<'b>, Malformed> {
        let (length, rest) = self.0.split_at_checked(4).ok_or(Malformed)?;
        if !length.iter().all(u8::is_ascii_hexdigit) {
            return Err(Malformed);
        }
        let length = std::str::from_utf8(length).map_err(|_| Malformed)?;
        let length = usize::from_str_radix(length, 16).map_err(|_| Malformed)?;
        let special = |packet| (packet, rest);
        let (packet, rest) = match length {
            0 => special(Packet::Flush),
            1 => special(Packet::Delimiter),
            2 => special(Packet::End),
            3 => return Err(Malformed),
            _ if length > MAX_PACKET => return Err(Malformed),
            _ => {
                let (content, rest) = rest.split_at_checked(length - 4).ok_or(Malformed)?;
                (Packet::Data(content), rest)
            }
        };
        self.0 = rest;
        Ok(packet)
    }
}

/// The text of a line, without the newline that may end it.
///
/// # Errors
/// [`Malformed`] for what is not text.
pub fn text(line: &[u8]) -> Result<&str, Malformed> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    std::str::from_utf8(line).map_err(|_| Malformed)
}

/// Adds a packet with `content`, which is a line of ours and short.
pub fn line(to: &mut Vec<u8>, content: &str) {
    to.extend_from_slice(&header(content.len()));
    to.extend_from_slice(content.as_bytes());
}

/// The length of a packet with so many bytes of content.
pub fn header(content: usize) -> [u8; 4] {
    let digits = format!("{:04x}", content + 4);
    let mut header = *b"0004";
    if digits.len() == 4 {
        header.copy_from_slice(digits.as_bytes());
    }
    header
}

/// `0000`
pub const FLUSH: &[u8] = b"0000";
/// `0001`
pub const DELIMITER: &[u8] = b"0001";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_and_nothing_beyond_the_end() {
        let all: Vec<_> = Packets(b"0006a\n000000010004").collect();
        let expected = [
            Ok(Packet::Data(b"a\n")),
            Ok(Packet::Flush),
            Ok(Packet::Delimiter),
            Ok(Packet::Data(b"")),
        ];
        assert_eq!(all, expected);
        for bad in ["0", "000", "0003", "0005", "+005a", "zzzz", "fff1", "ffff"] {
            let all: Vec<_> = Packets(bad.as_bytes()).collect();
            assert_eq!(all, [Err(Malformed)], "{bad}");
        }
    }

    #[test]
    fn lines_are_written_as_they_are_read() {
        let mut bytes = Vec::new();
        line(&mut bytes, "want\n");
        assert_eq!(bytes, b"0009want\n");
        assert_eq!(text(b"want\n"), Ok("want"));
        assert_eq!(text(b"\xff"), Err(Malformed));
    }
}
