//! What a bundle brings for Ansible: roles, collections, vaults, another user, and the way back.
//!
//! Needs `ansible-playbook` and `ansible-vault`; without them these tests say `SKIPPED`, and fail in CI. Becoming another
//! user needs root. Nothing is fetched: there is no `galaxy` in any of it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use outhaul_bundle::report::GenerationState;
use outhaul_test_kit::{Draft, Load};
use outhaul_tests::skipped;

use crate::ansible::{playbook, results, with_ansible, write};
use crate::media::is_root;
use crate::site::{Site, assert_reports, code, stderr, stdout};

fn out(site: &Site, file: &str) -> String {
    fs::read_to_string(site.folder.path().join("out").join(file)).unwrap_or_default()
}

#[test]
fn roles_and_collections_come_from_the_bundle() {
    let Some((centre, site)) = with_ansible() else {
        return;
    };
    let module = "#!/usr/bin/python\nfrom ansible.module_utils.basic import AnsibleModule\n\n\
        def main():\n    module = AnsibleModule(argument_spec={'path': {'type': 'str'}})\n    \
        open(module.params['path'], 'w').write('by a module')\n    module.exit_json(changed=True)\n\n\
        if __name__ == '__main__':\n    main()\n";
    let tasks = "- name: of a role\n  ansible.builtin.copy:\n    dest: \"{{ out }}/role\"\n    content: \"{{ word }}\"\n    \
                 mode: \"0644\"\n";
    let plays = "- hosts: all\n  gather_facts: true\n  roles:\n    - role: press\n  tasks:\n    \
        - name: of a collection\n      acme.tools.leave:\n        path: \"{{ out }}/module\"\n    \
        - name: facts are known\n      ansible.builtin.assert:\n        that: ansible_facts['system'] == 'Linux'\n";
    let load = Load::new("hello")
        .file("reconciler.yaml", plays)
        .payload("roles/press/tasks/main.yml", tasks)
        .payload("roles/press/defaults/main.yml", "word: by a role\n")
        .payload(
            "collections/ansible_collections/acme/tools/plugins/modules/leave.py",
            module,
        );
    site.take(&centre.publish(&Draft::new([load]).ansible()));
    assert_eq!(
        (out(&site, "role"), out(&site, "module")),
        ("by a role".into(), "by a module".into())
    );
    let reported = results(&site, 1, GenerationState::Active);
    let steps: Vec<_> = reported[0]
        .steps
        .iter()
        .map(|step| (step.name.as_str(), step.status.as_str()))
        .collect();
    assert_eq!(
        steps,
        [
            ("Gathering Facts", "ok"),
            ("press : of a role", "changed"),
            ("of a collection", "changed"),
            ("facts are known", "ok")
        ]
    );
}

/// `text` as `ansible-vault` encrypts it.
fn vault(site: &Site, password: &str, text: &str) -> String {
    let [key, file] = ["key", "vault.yml"].map(|name| site.folder.path().join(name));
    fs::write(&key, password).unwrap();
    fs::write(&file, text).unwrap();
    let mut encrypt = Command::new("ansible-vault");
    encrypt
        .arg("encrypt")
        .arg("--vault-password-file")
        .arg(&key)
        .arg(&file);
    let done = encrypt.env("LC_ALL", "C.UTF-8").output().unwrap();
    assert!(done.status.success(), "{}", stderr(&done));
    fs::read_to_string(file).unwrap()
}

#[test]
fn vaults_open_with_the_assignments_password_or_the_sites() {
    let Some((centre, site)) = with_ansible() else {
        return;
    };
    let settings = fs::read_to_string(site.state().join("agent.toml")).unwrap();
    let plays = "- hosts: all\n  gather_facts: false\n  vars_files: [\"{{ outhaul_payload }}/secret.yml\"]\n  tasks:\n    \
        - name: use it\n      ansible.builtin.copy:\n        dest: \"{{ out }}/secret\"\n        content: \"{{ word }}\"\n        \
        mode: \"0600\"\n";
    let load = |password: &str, word: &str| {
        Load::new("hello").file("reconciler.yaml", plays).payload(
            "secret.yml",
            vault(&site, password, &format!("word: {word}\n")),
        )
    };
    let own = load("of the assignment", "one").file("vault-password", "of the assignment");
    site.take(&centre.publish(&Draft::new([own]).ansible()));
    assert_eq!(out(&site, "secret"), "one");

    let key = site.folder.path().join("site-key");
    fs::write(&key, "of the site").unwrap();
    let set = |path: &str| {
        site.configure(&settings.replace(
            "[ansible]\n",
            &format!("[ansible]\nvault_password_file = \"{path}\"\n"),
        ));
    };
    let draft = Draft::new([load("of the site", "two")]).ansible();
    set(&site.folder.path().join("none").display().to_string());
    let refused = site.import(&centre.publish(&draft));
    assert_reports(&refused, 3, &["none`", "No such file"]);
    set(&key.display().to_string());
    // Whoever may write there may have a program of theirs run.
    let mode = |mode| fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
    for open in [0o777, 0o666] {
        mode(open);
        let words = format!("may be written by others (mode {open:o})");
        let refused = site.import(&centre.publish(&draft));
        assert_reports(
            &refused,
            3,
            &["vault_password_file", &words, "`chmod go-w "],
        );
        assert_eq!(out(&site, "secret"), "one");
    }
    mode(0o600);
    site.take(&centre.publish(&draft));
    assert_eq!(out(&site, "secret"), "two");

    let wrong =
        site.import(&centre.publish(&Draft::new([load("of someone else", "three")]).ansible()));
    assert_eq!(code(&wrong), 1, "{}", stderr(&wrong));
    assert!(
        stdout(&wrong).contains("Decryption failed"),
        "{}",
        stdout(&wrong)
    );
    assert_eq!(out(&site, "secret"), "two");
}

#[test]
fn a_task_becomes_another_user() {
    let Some((centre, site)) = with_ansible() else {
        return;
    };
    if !is_root() {
        return skipped("becoming another user needs root");
    }
    let tasks = "    - name: as nobody\n      become: true\n      become_method: su\n      become_user: nobody\n      \
        become_flags: \"-s /bin/sh\"\n      ansible.builtin.command: id -un\n      register: who\n      changed_when: false\n"
        .to_owned()
        + &write("say who", "who", "{{ who.stdout }}");
    let load = Load::new("hello").file("reconciler.yaml", playbook(&tasks));
    site.take(&centre.publish(&Draft::new([load]).ansible()));
    assert_eq!(out(&site, "who"), "nobody");
}

#[test]
fn a_site_goes_back_by_the_rollback_playbook_of_what_it_leaves() {
    let Some((centre, site)) = with_ansible() else {
        return;
    };
    let note = |word: &str| {
        format!(
            "    - name: {word}\n      ansible.builtin.shell: echo {word} >> {{{{ out }}}}/log\n"
        )
    };
    let load = |number: u32, more: &str| {
        Load::new("hello")
            .file(
                "reconciler.yaml",
                playbook(&(note(&format!("forward-{number}")) + more)),
            )
            .payload(
                "rollback.yaml",
                playbook(&note(&format!("back-from-{number}"))),
            )
    };
    let publish = |load: Load| centre.publish(&Draft::new([load]).ansible());
    let planned = stdout(&site.run(&["plan", publish(load(1, "")).to_str().unwrap()]));
    assert!(!planned.contains("forward only"), "{planned}");
    site.take(&publish(load(1, "")));
    site.take(&publish(load(2, "")));
    site.ok(&["rollback", "--who", "ann"]);
    assert_eq!(
        out(&site, "log"),
        "forward-1\nforward-2\nback-from-2\nforward-1\n"
    );

    // A bundle that fails is left in the same way.
    let fails = "    - name: fail\n      ansible.builtin.fail:\n        msg: no pressure\n";
    let refused = site.import(&publish(load(4, fails)));
    assert_eq!(code(&refused), 1, "{}", stderr(&refused));
    assert!(
        out(&site, "log").ends_with("forward-4\nback-from-4\nforward-1\n"),
        "{}",
        out(&site, "log")
    );
    // What cannot be undone is said, and nothing is run over it.
    let stuck = Load::new("hello")
        .file("reconciler.yaml", playbook(&note("forward-5")))
        .payload("rollback.yaml", playbook(fails));
    site.take(&publish(stuck));
    let back = site.run(&["rollback", "--who", "ann"]);
    let reported = format!("{}{}", stdout(&back), stderr(&back));
    assert!(reported.contains("`rollback.yaml` of bundle"), "{reported}");
    assert!(
        out(&site, "log").ends_with("forward-5\n"),
        "{}",
        out(&site, "log")
    );
}
