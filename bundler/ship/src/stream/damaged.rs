//! Contents that are kept on this machine and are not what they were: why a bundle could not be made.
//!
//! What comes in: the error of a stream, and where the contents lie that it read. What goes out: which of them are
//! damaged; their files are removed, so that the next run brings them again. Another error stays as it is. Contents are compared only
//! after something failed: a sound run reads each once.

use std::io;

use outhaul_bundle::encode::EncodeError;
use outhaul_bundle::write::WriteError;

use super::ProduceError;
use crate::assemble::AssembleError;
use crate::assemble::attest_and_seal::AttestSealError;
use crate::collect::Collector;
use crate::deliver::{self, DeliverError};

/// The damaged contents in the place of `error`, where there are any and it may come from them.
pub(super) fn instead(error: ProduceError, collector: &Collector<'_>) -> ProduceError {
    if !may_come_of_it(&error) {
        return error;
    }
    let mut copies = Vec::new();
    for (digest, path, image) in collector.read_where_they_lie() {
        if deliver::digest_of(&path).is_ok_and(|found| found == digest) {
            continue;
        }
        let became = match std::fs::remove_file(&path) {
            Ok(()) => "was removed".to_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => "is gone".to_owned(),
            Err(error) => format!("cannot be removed: {error}"),
        };
        let of = image.map_or_else(String::new, |name| format!(" of `{name}`"));
        copies.push(format!("{digest}{of}: `{}` {became}", path.display()));
    }
    match copies.is_empty() {
        true => error,
        false => ProduceError::Damaged { copies },
    }
}

fn may_come_of_it(error: &ProduceError) -> bool {
    let of_encoding = |error: &AssembleError| {
        matches!(
            error,
            AssembleError::Encode(EncodeError::Changed { .. } | EncodeError::Source { .. })
        )
    };
    match error {
        ProduceError::Assemble(error) | ProduceError::Finish(AttestSealError::Assemble(error)) => {
            of_encoding(error)
        }
        ProduceError::Finish(AttestSealError::Attest(_)) => true,
        ProduceError::Deliver(DeliverError::Write { source, .. }) => {
            matches!(source, WriteError::Blob { .. } | WriteError::Source { .. })
        }
        _ => false,
    }
}
