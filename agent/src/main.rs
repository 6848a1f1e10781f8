//! The program `outhaul-agent`: everything it does is in the library.

fn main() -> std::process::ExitCode {
    outhaul_agent::cli::main()
}
