//! `outhaul-signer`: key ceremonies and signing on a machine that is never online.
//!
//! It reads and writes files and nothing else. Data goes to stdout, talk to stderr; the exit code states
//! who has to act: 0 done, 1 waiting for signatures or refused, 2 usage, 3 files, 4 trust. All of it is in
//! the library, where man pages and completions are made from the same command line.

fn main() -> std::process::ExitCode {
    outhaul_signer::cli::main()
}
