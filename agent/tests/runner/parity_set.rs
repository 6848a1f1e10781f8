//! A published bundle in parts, with its parity parts, and parity that lies.
//!
//! What comes in: a draft, and what is changed in the parity. What goes out: files as `outhaul copy` writes them.

use std::fs;
use std::io;
use std::path::PathBuf;

use outhaul_bundle::fake::MemoryBlobs;
use outhaul_bundle::index::IndexBytes;
use outhaul_bundle::{BundleReader, Index, Limits, Parity, Volume, write_parity};
use outhaul_parity::{BlobBytes, encode};
use outhaul_test_kit::{Centre, Draft};

use super::volumes::parts;

struct Memory<'a>(&'a Index, &'a MemoryBlobs);

impl BlobBytes for Memory<'_> {
    fn read(&mut self, place: usize, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let bytes = &self.1.by_digest[&self.0.blobs[place].digest];
        let from = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&bytes[from..from + buffer.len()]);
        Ok(())
    }
}

/// A bundle in parts, and its parity parts; `lie` changes the parity before it is written.
pub struct Published {
    pub parts: Vec<PathBuf>,
    pub parity: Vec<PathBuf>,
}

pub fn publish(
    centre: &Centre,
    draft: &Draft,
    number: u64,
    of: usize,
    lie: impl Fn(usize, &mut Vec<u8>),
) -> Published {
    let parts = parts(centre, draft, number);
    let set = Set {
        name: "drone",
        of,
        cut: None,
    };
    let parity = set.write(centre, draft, number, &parts, lie);
    Published { parts, parity }
}

/// A set of parity parts of a published bundle.
pub struct Set<'s> {
    /// What their files are called.
    pub name: &'s str,
    pub of: usize,
    /// Another cut than that of the parts.
    pub cut: Option<&'s Volume>,
}

impl Set<'_> {
    /// Writes them; `lie` changes the parity before it is written.
    pub fn write(
        &self,
        centre: &Centre,
        draft: &Draft,
        number: u64,
        parts: &[PathBuf],
        lie: impl Fn(usize, &mut Vec<u8>),
    ) -> Vec<PathBuf> {
        let of = self.of;
        let (index, blobs) = centre.index(draft, number);
        let mut reader = BundleReader::new(fs::File::open(&parts[0]).unwrap(), Limits::default());
        let metadata: Vec<_> = reader.read_metadata().unwrap().into_iter().collect();
        let expected = outhaul_bundle::index::Content {
            digest: outhaul_bundle::Digest::of(&index.to_bytes()),
            size: index.to_bytes().len() as u64,
        };
        reader.read_index(&expected).unwrap();
        let volume = reader.read_volume(&index).unwrap().unwrap();
        let set = Parity::of_cut(self.cut.unwrap_or(&volume), of);
        let mut made = vec![Vec::new(); of];
        encode(
            &index,
            &set[0],
            &mut Memory(&index, &blobs),
            &mut |part, bytes| {
                made[part - 1].extend_from_slice(bytes);
                Ok(())
            },
        )
        .unwrap();
        let parity = set.iter().zip(made).map(|(parity, mut bytes)| {
            lie(parity.part(), &mut bytes);
            let file = write_parity(
                Vec::new(),
                &metadata,
                &IndexBytes::listed_in(&index.to_bytes(), &metadata),
                &index,
                parity,
                &mut |out| out.write_all(&bytes),
            );
            let name = format!("{}-{number}.{}of{of}.parity", self.name, parity.part());
            let path = centre.folder().join(name);
            fs::write(&path, file.unwrap()).unwrap();
            path
        });
        parity.collect()
    }
}
