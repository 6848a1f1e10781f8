//! Tests of what is read back from `ansible-playbook`, without running it.
//!
//! The program itself is run in the agent's integration tests: order, results, going back, packages.
//! Nothing here needs Ansible, a network or a clock.
use super::playbook::parse;

#[test]
fn a_torn_last_line_is_left_out_and_the_rest_is_kept() {
    let bytes = b"{\"task\":\"a\",\"status\":\"ok\",\"message\":\"\"}\n{\"task\":\"b\",\"sta";
    let steps = parse(bytes);
    assert_eq!(steps.len(), 1);
    assert_eq!(
        (steps[0].name.as_str(), steps[0].status.as_str()),
        ("a", "ok")
    );
}
