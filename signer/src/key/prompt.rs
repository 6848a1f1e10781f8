//! A passphrase, typed at a terminal.
//!
//! What comes in: what someone types, without echo. What goes out: the text, in memory that is wiped, or why
//! there is none. Only where standard input is a terminal: a script is never made to wait. The terminal is
//! put back as it was at every end, Ctrl-C included.

use std::io::{self, IsTerminal as _, Read as _, Write as _};

use rustix::termios::{self, LocalModes, OptionalActions, Termios};
use zeroize::Zeroizing;

/// Longest passphrase in bytes.
const MAX_BYTES: usize = 1024;

/// Whether someone may sit there.
pub(super) fn is_possible() -> bool {
    io::stdin().is_terminal()
}

/// Asks for it; a new one twice.
///
/// # Errors
/// What kept it from being typed, for people.
pub(super) fn ask(new: bool) -> Result<Zeroizing<String>, String> {
    if !new {
        return line("Passphrase of the keys: ");
    }
    let first = line("New passphrase: ")?;
    let again = line("The same once more: ")?;
    if first == again {
        Ok(first)
    } else {
        Err("the two passphrases differ; nothing was written".to_owned())
    }
}

/// The terminal, put back when this goes.
struct Silent(Termios);

impl Silent {
    fn new() -> io::Result<Self> {
        let before = termios::tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        // Signals come as characters, so that no interruption leaves the terminal silent.
        silent.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        termios::tcsetattr(io::stdin(), OptionalActions::Now, &silent)?;
        Ok(Self(before))
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // A terminal that is gone needs no putting back.
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Now, &self.0);
    }
}

fn line(question: &str) -> Result<Zeroizing<String>, String> {
    let unreadable = |error: io::Error| format!("the terminal cannot be read: {error}");
    // Before the question: what is typed at once is not shown either.
    let silent = Silent::new().map_err(unreadable)?;
    let _ = write!(io::stderr(), "{question}");
    let mut typed = Zeroizing::new(Vec::with_capacity(MAX_BYTES));
    let mut byte = Zeroizing::new([0u8; 1]);
    let mut input = io::stdin().lock();
    let ended = loop {
        match input.read(&mut *byte) {
            Ok(1) => {}
            Ok(_) => break Err("nothing was typed".to_owned()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => break Err(unreadable(error)),
        }
        match byte[0] {
            b'\r' | b'\n' => break Ok(()),
            // Ctrl-C, Ctrl-D, Ctrl-\.
            0x03 | 0x04 | 0x1c => break Err("it was not typed".to_owned()),
            // Backspace takes a whole character; Ctrl-U everything.
            0x08 | 0x7f => while typed.pop().is_some_and(|last| last & 0xc0 == 0x80) {},
            0x15 => typed.clear(),
            other if typed.len() < MAX_BYTES => typed.push(other),
            _ => break Err("more than 1024 bytes were typed".to_owned()),
        }
    };
    drop(silent);
    let _ = writeln!(io::stderr());
    ended?;
    let text = str::from_utf8(&typed).map_err(|_| "it is not text".to_owned())?;
    if text.is_empty() {
        return Err("nothing was typed".to_owned());
    }
    Ok(Zeroizing::new(text.to_owned()))
}
