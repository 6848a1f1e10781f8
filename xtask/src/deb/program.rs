//! What a built program needs of the host that it is installed on.
//!
//! What comes in: the program. What goes out: Debian's name of its processor, and the packages whose libraries it
//! loads, as `dpkg-shlibdeps` finds them. A program that loads none needs none.

use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// Of each processor: its number in an ELF header (`e_machine`), and Debian's name.
const PROCESSORS: [(u16, &str); 3] = [(62, "amd64"), (183, "arm64"), (243, "riscv64")];
/// Programs headers are looked for in so many bytes of the file; they follow the ELF header.
const HEAD_BYTES: u64 = 64 * 1024;
/// The program header that names the loader of libraries (`PT_INTERP`).
const INTERPRETER: u32 = 3;

/// Debian's name of the processor that `program` is for, and whether it loads libraries.
pub fn read(program: &Path) -> Result<(&'static str, bool)> {
    let mut head = Vec::new();
    fs::File::open(program)
        .with_context(|| format!("cannot read `{}`: was it built?", program.display()))?
        .take(HEAD_BYTES)
        .read_to_end(&mut head)?;
    header(&head).with_context(|| {
        format!(
            "`{}` is not a program that can be packed",
            program.display()
        )
    })
}

/// Fields of the ELF-64 header: processor at 18, first program header at 32, their size at 54 and number at 56.
fn header(head: &[u8]) -> Option<(&'static str, bool)> {
    // 64 bits, least significant byte first.
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let number = |at: usize| Some(u16::from_le_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let machine = number(18)?;
    let (_, name) = PROCESSORS.iter().find(|(known, _)| *known == machine)?;
    let first = usize::try_from(u64::from_le_bytes(head.get(32..40)?.try_into().ok()?)).ok()?;
    let (size, count) = (usize::from(number(54)?), usize::from(number(56)?));
    for index in 0..count {
        let at = first.checked_add(size.checked_mul(index)?)?;
        let kind = u32::from_le_bytes(head.get(at..at.checked_add(4)?)?.try_into().ok()?);
        if kind == INTERPRETER {
            return Some((name, true));
        }
    }
    Some((name, false))
}

/// The packages whose libraries `programs` load, as a `Depends` field has them.
pub fn libraries(programs: &[&Path]) -> Result<String> {
    // It wants to be called in the source folder of a package.
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("debian"))?;
    fs::write(
        folder.path().join("debian/control"),
        "Source: outhaul\n\nPackage: outhaul\nArchitecture: any\n",
    )?;
    let mut command = Command::new("dpkg-shlibdeps");
    command.arg("-O").current_dir(folder.path());
    for program in programs {
        let mut argument = std::ffi::OsString::from("-e");
        argument.push(std::path::absolute(program)?);
        command.arg(argument);
    }
    let done = command.output().context("cannot run dpkg-shlibdeps")?;
    if !done.status.success() {
        bail!(
            "dpkg-shlibdeps: {}",
            String::from_utf8_lossy(&done.stderr).trim()
        );
    }
    let text = String::from_utf8(done.stdout)?;
    let found = text
        .lines()
        .find_map(|line| line.strip_prefix("shlibs:Depends="));
    Ok(found.unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_program_has_a_processor_and_what_is_no_program_is_refused() {
        let (name, _) = read(&std::env::current_exe().unwrap()).unwrap();
        assert!(PROCESSORS.iter().any(|(_, known)| *known == name));
        let error = read(&crate::repository::root().join("Cargo.toml")).unwrap_err();
        assert!(
            format!("{error:#}").contains("is not a program"),
            "{error:#}"
        );
        assert!(header(b"\x7fELF\x02\x01").is_none());
    }
}
