//! From a line inside a template to the line in the file that holds it.
//!
//! What comes in: where the template's text is written in its YAML file, and a line and column of that
//! text. What goes out: a [`Location`] in the file. Where the text is not a block scalar, whose lines
//! are the file's lines, the scalar itself is the best place that there is.

use outhaul_control::diagnostic::Location;

/// The place of `line` and `column` (from 1) of the text that stands at `scalar`.
pub fn inside(scalar: &Location, line: usize, column: usize) -> Location {
    block_line(scalar, line, column).unwrap_or_else(|| scalar.clone())
}

fn block_line(scalar: &Location, line: usize, column: usize) -> Option<Location> {
    let text = &scalar.file.text;
    let from = text.get(scalar.span.start..)?;
    // Some parsers point at the indicator, others at the text below it.
    let (mut start, indented) = if from.starts_with(['|', '>']) {
        (scalar.span.start + from.find('\n')? + 1, None)
    } else {
        let line_start = text
            .get(..scalar.span.start)?
            .rfind('\n')
            .map_or(0, |at| at + 1);
        let before = text.get(line_start..scalar.span.start)?;
        let above = text
            .get(..line_start.saturating_sub(1))?
            .rsplit('\n')
            .next()?;
        let is_block = before.trim().is_empty() && above.trim_end().ends_with(['|', '>', '-', '+']);
        if !is_block {
            return None;
        }
        (line_start, Some(before.len()))
    };
    let indent = indented.or_else(|| {
        let first = text
            .get(start..)?
            .lines()
            .find(|line| !line.trim().is_empty())?;
        Some(first.len() - first.trim_start_matches(' ').len())
    })?;
    for _ in 1..line {
        start += text.get(start..)?.find('\n')? + 1;
    }
    let length = text.get(start..)?.find('\n').unwrap_or(text.len() - start);
    let at = (start + indent + column.saturating_sub(1)).min(start + length);
    Some(Location::new(&scalar.file, at..start + length))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use outhaul_control::diagnostic::SourceFile;

    #[test]
    fn a_line_of_a_block_is_a_line_of_the_file() {
        let text = "spec:\n  manifests:\n    - |\n      a: 1\n      b: {{ x }}\n";
        let file = Arc::new(SourceFile {
            name: "t.yaml".into(),
            text: text.into(),
        });
        for start in [text.find('|').unwrap(), text.find("a: 1").unwrap()] {
            let scalar = Location::new(&file, start..text.len());
            let place = inside(&scalar, 2, 4);
            assert_eq!((place.line(), place.column()), (5, 10));
            assert!(
                text[place.span.clone()].starts_with("{{ x"),
                "{:?}",
                &text[place.span]
            );
        }
    }
}
