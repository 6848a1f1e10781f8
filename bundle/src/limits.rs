//! Every bound that a reader of foreign bytes keeps, in one place, with its unit and its reason.

/// Bounds for reading a bundle. The defaults suit a site with little memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest single metadata file in bytes. 512 KiB: python-tuf's bound for root metadata.
    pub max_metadata_bytes: u64,
    /// Most metadata files. 1,024 missed root rotations is python-tuf's own bound of patience.
    pub max_metadata_files: usize,
    /// Most bytes of all metadata files together: they are held in memory before anything is verified of
    /// them. 8 MiB: 1,024 roots of 8 KiB.
    pub max_metadata_total_bytes: u64,
    /// Largest `index.json` in bytes. 64 MiB: some 200,000 files.
    pub max_index_bytes: u64,
    /// Largest blob as carried, in bytes. 64 GiB.
    pub max_blob_bytes: u64,
    /// Largest parity of one part in bytes: as the largest data part by the signed index. 1 TiB.
    pub max_parity_bytes: u64,
    /// Largest single content after decompression, in bytes. 64 GiB.
    pub max_content_bytes: u64,
    /// Largest content of a pack, in bytes: packs hold small files only. 16 MiB.
    pub max_packed_content_bytes: u64,
    /// zstd window, as a power of two: 25 is 32 MiB, the most that a decoder may be asked to hold; what
    /// our encoder asks for is 8 MiB at most.
    pub max_window_log: u32,
    /// Most blobs in one bundle.
    pub max_blobs: usize,
    /// Most files of one bundle: rendered, of overlays, payloads and attestations together; as many
    /// different contents. 400,000: twice what fits into the largest index when paths have usual lengths.
    pub max_files: usize,
    /// Most assignments of one bundle. 20,000: a whole large fleet's on one cluster type.
    pub max_assignments: usize,
    /// Most overlays of all assignments together. 100,000: every site of the largest stream has its own.
    pub max_overlays: usize,
    /// Most sites that a bundle may be for by name. 100,000: the largest stream.
    pub max_recipients: usize,
    /// Most names of sites in recipients, assignments, overlays and seals together: each takes some 100 bytes of memory.
    /// 500,000: ten assignments of the largest stream with values for half of its sites.
    pub max_site_names: usize,
    /// Most orders of one bundle. 100,000: one for each site of the largest stream.
    pub max_orders: usize,
    /// Most policies of all assignments and settings of the reconciler together.
    pub max_settings: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_metadata_bytes: 512 * 1024,
            max_metadata_files: 4 * 1024,
            max_metadata_total_bytes: 8 * 1024 * 1024,
            max_index_bytes: 64 * 1024 * 1024,
            max_blob_bytes: 64 << 30,
            max_parity_bytes: 1 << 40,
            max_content_bytes: 64 << 30,
            max_packed_content_bytes: 16 * 1024 * 1024,
            max_window_log: 25,
            max_blobs: 400_000,
            max_files: 400_000,
            max_assignments: 20_000,
            max_overlays: 100_000,
            max_recipients: 100_000,
            max_site_names: 500_000,
            max_orders: 100_000,
            max_settings: 200_000,
        }
    }
}
