//! Completions of the centre's programs, as a shell reads them.

use std::process::Command;

use super::system::SystemFixture;

#[test]
fn the_centres_programs_print_their_own_completions() {
    let fixture = SystemFixture::new();
    for (program, subcommand) in [
        ("outhaul", "promote"),
        ("outhaul-hub", "waive"),
        ("outhaul-signer", "countersign"),
    ] {
        for shell in ["bash", "zsh", "fish"] {
            let script = fixture.run(program, 0, &["completions", shell]).stdout;
            assert!(script.contains(program), "{script}");
            assert!(script.contains(subcommand), "{program} {shell}");
        }
        let script = fixture.run(program, 0, &["completions", "bash"]).stdout;
        let file = fixture.path(program);
        std::fs::write(&file, &script).unwrap();
        let read = Command::new("bash").arg("-n").arg(file).output();
        assert!(read.unwrap().status.success(), "{program}");
        let json = fixture.run(program, 0, &["completions", "bash", "--output", "json"]);
        let result = outhaul_tests::result(&json.stdout);
        assert_eq!(
            result["script"].as_str().unwrap().trim_end(),
            script.trim_end()
        );
    }
}
