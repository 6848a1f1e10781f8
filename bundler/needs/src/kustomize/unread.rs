//! The manifests below the path, each read or named.
//!
//! What comes in: a file that was read. What goes out: its documents, or the gap that it leaves. The templates of a chart are no YAML
//! before Helm has filled them in: each chart is named once.

use std::sync::Arc;

use outhaul_control::diagnostic::SourceFile;
use outhaul_control::yaml::{self, Node};

use super::files::{join, parent};
use super::{Followed, Gap, Means, Walk, shown};
use crate::unread::{HELP, Unread};

impl Followed {
    /// The manifests that are not read.
    pub fn unread(&self) -> impl Iterator<Item = Unread> {
        let gaps = self.gaps.iter().filter(|gap| gap.means == Means::Unread);
        gaps.map(|gap| Unread {
            message: gap.message.clone(),
            at: gap.at.clone(),
        })
    }
}

impl Walk<'_> {
    /// The documents of a manifest; none where it is not read, which is said.
    pub(super) fn whole(&mut self, path: &str, file: &Arc<SourceFile>) -> Vec<Node> {
        let Unread { message, at } = match yaml::parse(file) {
            _ if !self.files.is_text(path) => Unread::encoding(file),
            Ok(documents) => return documents,
            Err(finding) => Unread::syntax(file, *finding),
        };
        match self.chart_of(path).filter(|_| file.text.contains("{{")) {
            None => self.gap(Means::Unread, at, message, HELP),
            Some(chart) => {
                let message = format!(
                    "the templates of the chart in `{}` are not read, and so neither are the images in them",
                    shown(&chart)
                );
                let is_said = |gap: &Gap| gap.message == message;
                if !self.gaps.iter().any(is_said) {
                    let help = "commit what the chart makes (`helm template`) in its place";
                    self.gap(Means::Templates, at, message, help);
                }
            }
        }
        Vec::new()
    }

    /// The folder of the chart whose template `path` is.
    pub(super) fn chart_of(&self, path: &str) -> Option<String> {
        let mut folder = parent(path).0;
        while !folder.is_empty() {
            let (above, name) = parent(folder);
            let described = join(above, "Chart.yaml").unwrap_or_default();
            if name == "templates" && self.below.contains(&described) {
                return Some(above.to_owned());
            }
            folder = above;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use outhaul_git::source::{GitReference, open_folder};

    use super::super::{Means, follow};

    const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: evil/a}]}\n";

    fn gaps(files: &[(&str, &[u8])]) -> Vec<(Means, String)> {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            let at = dir.path().join(name);
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::write(at, bytes).unwrap();
        }
        let opened = open_folder(dir.path(), "https://g.example/a", &GitReference::Head).unwrap();
        let gaps = follow(&opened, ".", &[], &[]).unwrap().gaps.into_iter();
        gaps.map(|gap| (gap.means, gap.at.file_line())).collect()
    }

    #[test]
    fn a_manifest_that_hides_its_images_is_named_with_its_line() {
        let utf16: Vec<u8> = std::iter::once(0xfeff)
            .chain(POD.encode_utf16())
            .flat_map(u16::to_le_bytes)
            .collect();
        let twice = POD.replace("image: evil/a", "image: a, image: evil/a");
        for (name, bytes, line) in [
            ("a.yaml", format!("{POD}---\nfoo: [\n").into_bytes(), 7),
            ("b.yml", twice.into_bytes(), 4),
            ("c.json", b"{\"image\": ".to_vec(), 1),
            ("d.yaml", utf16, 1),
        ] {
            let found = gaps(&[(name, &bytes), ("e.yaml", POD.as_bytes())]);
            let [(Means::Unread, at)] = found.as_slice() else {
                panic!("{name}: {found:?}");
            };
            assert!(at.ends_with(&format!("{name}:{line}")), "{at}");
        }
        assert_eq!(gaps(&[("a.yaml", POD.as_bytes())]), []);
    }

    #[test]
    fn the_templates_of_a_chart_are_named_once_and_what_only_lies_there_is_no_template() {
        let template: &[u8] = b"{{- if .Values.a }}\nimage: a\n{{- end }}\n";
        let found = gaps(&[
            ("app/Chart.yaml", b"name: app\n"),
            ("app/templates/a.yaml", template),
            ("app/templates/b/c.yaml", template),
            ("app/templates/d.yaml", b"a: [\n"),
            ("templates/e.yaml", template),
        ]);
        let means: Vec<_> = found.into_iter().map(|(means, _)| means).collect();
        assert_eq!(means, [Means::Templates, Means::Unread, Means::Unread]);
    }
}
