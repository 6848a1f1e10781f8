//! Properties: what is written is read back; the same input gives the same bytes; no bytes whatever
//! make a reader panic.

use std::collections::BTreeMap;

use outhaul_bundle::decode::decode;
use outhaul_bundle::encode::{ContentToEncode, encode_blob, plan_blobs};
use outhaul_bundle::fake::{FakeBundle, MemoryBlobs};
use outhaul_bundle::index::Overlay;
use outhaul_bundle::patch::{Maker, Region, Source, View};
use outhaul_bundle::{BundleReader, Digest, Index, Limits};
use proptest::prelude::*;

use crate::bodies;

/// File names with contents of many kinds: empty, tiny, around the limit of packs, repetitive, random.
fn files() -> impl Strategy<Value = BTreeMap<String, Vec<u8>>> {
    let content = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(any::<u8>(), 0..200),
        (any::<u8>(), 65_500usize..65_600).prop_map(|(byte, size)| vec![byte; size]),
        (any::<u8>(), 0usize..200_000).prop_map(|(byte, size)| {
            (0..size)
                .map(|n| byte.wrapping_add((n / 7) as u8))
                .collect()
        }),
    ];
    prop::collection::btree_map("[a-z]{1,6}(\\.gz)?", content, 0..8)
}

fn fake(files: &BTreeMap<String, Vec<u8>>) -> FakeBundle {
    let files: Vec<(&str, &[u8])> = files
        .iter()
        .map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
        .collect();
    FakeBundle::new(3, &files).unwrap()
}

/// A writer that a test can look into after the decoder dropped it.
#[derive(Clone, Default)]
struct Shared(std::rc::Rc<std::cell::RefCell<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A patch that makes what it should, of every kind of piece.
fn sound_patch() -> Vec<u8> {
    let (old, new) = bodies::patched_bytes();
    let source = Source {
        blob: Digest::of(&old),
        view: View::Contents,
    };
    let mut maker = Maker::new(vec![source], std::io::Cursor::new(Vec::new()));
    let region = |source, offset, length| Region {
        source,
        offset,
        length,
    };
    maker.copy(region(0, 2_000, 1_000));
    let prefix = region(0, 0, 600);
    maker
        .keep_aside(&new[1_000..1_500], &[prefix], &old[..600])
        .unwrap();
    let aside = maker.aside();
    maker.copy(region(aside, 0, 500));
    maker
        .patch(&new[1_500..], &[region(0, 400, 600)], &old[400..1_000])
        .unwrap();
    let mut bytes = Vec::new();
    maker.finish(&mut bytes).unwrap();
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_back(files in files()) {
        let fake = fake(&files);
        let bytes = fake.to_bytes().unwrap();
        let mut reader = BundleReader::new(bytes.as_slice(), Limits::default());
        let metadata = reader.read_metadata().unwrap();
        prop_assert!(metadata.into_iter().eq(fake.metadata.clone()));
        let (index, raw) = reader.read_index(&fake.expected_index()).unwrap();
        prop_assert_eq!(&index, &fake.index);
        prop_assert_eq!(raw, fake.index.to_bytes());
        let mut store = MemoryBlobs::default();
        reader.read_blobs(&index, &mut store).unwrap();
        prop_assert_eq!(reader.offset(), bytes.len() as u64);
        let mut contents = BTreeMap::new();
        for blob in &index.blobs {
            let carried = store.by_digest[&blob.digest].as_slice();
            let mut each = |content: &outhaul_bundle::index::Content| {
                let out = Shared::default();
                contents.insert(content.digest, out.clone());
                Ok(Some(Box::new(out) as Box<dyn std::io::Write>))
            };
            decode(blob, carried, &Limits::default(), &mut each).unwrap();
        }
        for (name, bytes) in &files {
            let found = contents[&Digest::of(bytes)].0.borrow();
            prop_assert_eq!(&*found, bytes, "{}", name);
        }
    }

    #[test]
    fn the_same_files_give_the_same_bytes_in_any_order(files in files(), seed in any::<u64>()) {
        let mut candidates: Vec<ContentToEncode> = files
            .iter()
            .map(|(path, bytes)| {
                let (digest, size) = (Digest::of(bytes), bytes.len() as u64);
                ContentToEncode { digest, size, path: path.clone() }
            })
            .collect();
        let plan = plan_blobs(&candidates);
        let mut contents = MemoryBlobs::default();
        for bytes in files.values() {
            contents.put(bytes.clone());
        }
        let blobs = |contents: &mut MemoryBlobs| -> Vec<_> {
            let encode = |plan| encode_blob(plan, contents, Vec::new()).unwrap();
            plan.iter().map(encode).collect()
        };
        prop_assert_eq!(blobs(&mut contents), blobs(&mut contents));
        let length = candidates.len().max(1);
        candidates.rotate_left((seed as usize) % length);
        candidates.reverse();
        prop_assert_eq!(plan_blobs(&candidates), plan);
        prop_assert_eq!(fake(&files).to_bytes().unwrap(), fake(&files).to_bytes().unwrap());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is laid over whatever: an index that is accepted gives each site exactly its files.
    #[test]
    fn a_site_gets_its_own_files_and_all_others_of_the_base(
        files in prop::collection::btree_map("[a-d]", any::<u8>(), 1..4),
        own in prop::collection::vec(
            (prop::collection::btree_set("site-[1-4]", 1..3), prop::collection::btree_map("[a-f]", any::<u8>(), 0..4)),
            0..4,
        ),
    ) {
        let all: BTreeMap<String, Vec<u8>> = (0..=255u8).map(|b| (format!("x{b}"), vec![b])).collect();
        let mut fake = fake(&all);
        let known = fake.index.assignments[0].files.clone();
        let listed = |files: &BTreeMap<String, u8>| -> Vec<_> {
            let one = |(path, byte): (&String, &u8)| {
                let digest = Digest::of(&[*byte]);
                let mut file = known.iter().find(|f| f.content == digest).unwrap().clone();
                file.path = path.parse().unwrap();
                file
            };
            files.iter().map(one).collect()
        };
        let assignment = &mut fake.index.assignments[0];
        assignment.files = listed(&files);
        for (sites, files) in &own {
            assignment.overlays.push(Overlay {
                sites: sites.iter().map(|site| site.parse().unwrap()).collect(),
                config_version: Digest::of(format!("{files:?}").as_bytes()),
                files: listed(files),
            });
        }
        bodies::index(&fake.index.to_bytes());
        let mut seen = std::collections::BTreeSet::new();
        let sound = own.iter().all(|(sites, files)| {
            !files.is_empty() && sites.iter().all(|site| seen.insert(site.clone()))
        });
        let accepted = Index::from_bytes(&fake.index.to_bytes(), &Limits::default());
        prop_assert_eq!(accepted.is_ok(), sound);
        for site in ["site-1", "site-2", "site-3", "site-4"].iter().filter(|_| sound) {
            let mut expected = files.clone();
            if let Some((_, own)) = own.iter().find(|(sites, _)| sites.contains(*site)) {
                expected.extend(own.clone());
            }
            let got = fake.index.clone().for_site(&site.parse().unwrap());
            prop_assert_eq!(&got.assignments[0].files, &listed(&expected));
        }
    }
}

/// How many cases each fuzz body gets here: few by default, more by `PROPTEST_CASES`.
fn cases() -> ProptestConfig {
    ProptestConfig::default()
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn fuzz_bundle_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        bodies::bundle(&bytes);
    }

    #[test]
    fn fuzz_bundle_with_changed_bytes(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        checksums in any::<bool>(),
    ) {
        let mut bytes = FakeBundle::new(1, &[("a", b"alpha"), ("b", b"")]).unwrap().to_bytes().unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if checksums {
            // So that changes get past the first barrier.
            for block in bytes.chunks_mut(512).filter(|block| block[257..262] == *b"ustar") {
                let mut header = tar::Header::new_ustar();
                header.as_mut_bytes().copy_from_slice(block);
                header.set_cksum();
                block.copy_from_slice(header.as_bytes());
            }
        }
        bodies::bundle(&bytes);
    }

    #[test]
    fn fuzz_blob_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        bodies::blob(&bytes);
    }

    #[test]
    fn fuzz_blob_with_a_damaged_frame(
        sizes in any::<[u8; 4]>(),
        change in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let total: usize = sizes.iter().map(|size| usize::from(*size)).sum();
        let mut bytes = sizes.to_vec();
        bytes.extend(zstd::bulk::compress(&vec![0; total], 3).unwrap());
        let at = change.index(bytes.len());
        bytes[at] = byte;
        bodies::blob(&bytes);
    }

    #[test]
    fn fuzz_index_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        bodies::index(&bytes);
    }

    #[test]
    fn fuzz_index_with_changed_bytes(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = FakeBundle::new(1, &[("a", b"alpha")]).unwrap().index.to_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bodies::index(&bytes);
    }

    #[test]
    fn fuzz_parity_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        bodies::parity(&bytes);
    }

    #[test]
    fn fuzz_parity_with_other_numbers(
        part in any::<usize>(), of in any::<usize>(), blobs in prop::collection::vec(0usize..7, 0..7)
    ) {
        for (part, of) in [(part, of), (part % 4, of % 70), (1, of % 70)] {
            let text = format!(
                "{{\"format\":\"outhaul.dev/parity/v1\",\"part\":{part},\"of\":{of},\"blobs\":{blobs:?}}}\n"
            );
            bodies::parity(text.replace(", ", ",").as_bytes());
        }
    }

    #[test]
    fn fuzz_parity_with_changed_bytes(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = bodies::right_parity();
        assert!(bodies::parity(&bytes));
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bodies::parity(&bytes);
    }

    #[test]
    fn fuzz_patch_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        bodies::patch(&bytes);
    }

    #[test]
    fn fuzz_patch_with_changed_bytes(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = sound_patch();
        prop_assert!(bodies::patch(&bytes));
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bodies::patch(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        bodies::patch(&bytes);
    }

    #[test]
    fn fuzz_orders_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        bodies::orders(&bytes);
    }

    #[test]
    fn fuzz_orders_with_values_of_all_kinds(
        orders in prop::collection::vec(
            (
                prop_oneof![Just("\"a\""), Just("\"b\""), Just("\"../a\""), Just("\"\""), Just("null")],
                prop_oneof![Just("0"), Just("1"), Just("2"), Just("-1"), Just("1.5"),
                    Just("18446744073709551615"), Just("18446744073709551616")],
                prop_oneof![
                    Just(r#"{"kind":"rekey"}"#), Just(r#"{"kind":"revoke"}"#),
                    Just(r#"{"kind":"revoke","key":1}"#), Just(r#"{"kind":"wipe"}"#), Just("{}"),
                    Just(r#"{"kind":"approve","key":"x"}"#),
                    Just(r#"{"kind":"move","first":0,"to":{"role":"r","environment":"e","cluster_type":"c"}}"#),
                    Just(r#"{"kind":"move","first":7,"to":{"role":"r","environment":"e","cluster_type":"c"}}"#),
                ],
                any::<bool>(),
            ),
            0..4,
        ),
    ) {
        let one = |(site, number, what, twice): &(&str, &str, &str, bool)| {
            let digest = Digest::of(b"token");
            let more = if *twice { r#","number":3"# } else { "" };
            format!(r#"{{"site":{site},"number":{number},"enrolment":"{digest}","what":{what}{more}}}"#)
        };
        let text: Vec<_> = orders.iter().map(one).collect();
        bodies::orders(format!("[{}]", text.join(",")).as_bytes());
        for one in &text {
            bodies::orders(one.as_bytes());
        }
    }

    #[test]
    fn fuzz_orders_with_changed_bytes(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let (digest, key) = (Digest::of(b"token"), Digest::of(b"key"));
        let text = format!(
            r#"[{{"site":"a","number":1,"enrolment":"{digest}","what":{{"kind":"approve","key":"{key}"}}}},
                {{"site":"a","number":2,"enrolment":"{digest}","what":{{"kind":"move","first":7,
                  "to":{{"role":"r","environment":"e","cluster_type":"c"}}}}}},
                {{"site":"b","number":1,"enrolment":"{digest}","what":{{"kind":"rekey"}}}}]"#
        );
        let mut bytes = text.into_bytes();
        prop_assert!(bodies::right_orders_are_accepted(&bytes));
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bodies::orders(&bytes);
    }

    #[test]
    fn fuzz_report_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        bodies::report(&bytes);
    }

    #[test]
    fn fuzz_report_with_changed_bytes(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let text = r#"{"format":"outhaul.dev/report/v1","fleet":"f","site":"s","epoch":"e",
            "number":1,"at":{"wall_ms":1,"lower_bound_ms":1,"trusted":false},
            "event":{"kind":"refusal","source":"x","rule":"y","message":"z"}}"#;
        let mut bytes = text.as_bytes().to_vec();
        prop_assert!(outhaul_bundle::Report::from_bytes(&bytes).is_ok());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bodies::report(&bytes);
    }

    #[test]
    fn fuzz_explanation_with_changed_bytes(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        use outhaul_bundle::hub_api::PlatformExplanation;
        let source = r#"{"name":"a","repo":"r","commit":"1"}"#;
        let snapshot = FakeBundle::new(1, &[]).unwrap().index.snapshot;
        let snapshot = outhaul_bundle::index::Snapshot::of(snapshot.environment, snapshot.base, vec![
            serde_json::from_str(source).unwrap(),
        ]);
        let environment = snapshot.environment.name.clone();
        let snapshot = serde_json::to_string(&snapshot).unwrap();
        let text = format!(
            r#"{{"format":1,"environment":"{environment}","snapshot":{snapshot},"entities":{{"environments":[],"cluster_types":[
            {{"name":"c","at":"a:1"}}],"policies":[
            {{"name":"p","at":"a:3"}}],"configs":[],"templates":[],"schemas":[],"workloads":[],"targets":[
            {{"name":"t","at":"a:2"}}]}},"assignments":[{{"cluster_type":"c","target":"t","policies":["p"],"verdicts":[
            {{"policy":"p","at":"a:3","targets":"","cluster_types":"","matches":[],"misses":[]}}],
            "more_verdicts":0,"config":0}}],"not_assigned":[],"not_assigned_left_out":0,"configs":[[]]}}"#
        );
        let mut bytes = text.into_bytes();
        prop_assert!(PlatformExplanation::read(&bytes).is_ok());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bodies::explanation(&bytes);
    }

    #[test]
    fn fuzz_acknowledgement_of_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..512)) {
        bodies::acknowledgement(&bytes);
    }

    #[test]
    fn fuzz_acknowledgement_with_changed_bytes(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let text = format!(
            r#"{{"fleet":"f","site":"s","epoch":"e","number":7,"digest":"{}","hub_time_ms":1}}"#,
            Digest::of(b"report")
        );
        let mut bytes = text.into_bytes();
        prop_assert!(serde_json::from_slice::<outhaul_bundle::report::Ack>(&bytes).is_ok());
        let at = at.index(bytes.len());
        bytes[at] = byte;
        bodies::acknowledgement(&bytes);
    }
}
