//! Which parity parts are tried together, where some of them may lie.
//!
//! What comes in: candidates, each with the parity part that it says it is, and how many are needed. What goes out: choices of so many, no
//! two of one part, the most promising first, a bounded number of them. It reads nothing.

use std::collections::BTreeSet;

/// Choices of `enough` of `all`, each of another part than the others and than those in `here`, at most `most`: first, from each candidate
/// on, the next ones, so that one that lies is soon left behind; then every other choice.
pub fn choices<T: Copy + PartialEq>(
    all: &[(T, usize)],
    enough: usize,
    here: &BTreeSet<usize>,
    most: usize,
) -> Vec<Vec<T>> {
    let mut found: Vec<Vec<T>> = Vec::new();
    for from in 0..all.len().min(most) {
        let (mut parts, mut chosen) = (here.clone(), Vec::new());
        for (one, part) in all.iter().skip(from) {
            if chosen.len() < enough && parts.insert(*part) {
                chosen.push(*one);
            }
        }
        if chosen.len() == enough && !found.contains(&chosen) {
            found.push(chosen);
        }
    }
    let mut rest = Vec::new();
    add(all, enough, (&mut Vec::new(), here), (&mut rest, most));
    for chosen in rest {
        if !found.contains(&chosen) {
            found.push(chosen);
        }
    }
    found.truncate(most);
    found
}

/// Adds every way to add `left` more of `all` to those that were chosen, until there are enough ways.
fn add<T: Copy>(
    all: &[(T, usize)],
    left: usize,
    (chosen, parts): (&mut Vec<T>, &BTreeSet<usize>),
    (found, most): (&mut Vec<Vec<T>>, usize),
) {
    if left == 0 {
        found.push(chosen.clone());
        return;
    }
    for (at, (one, part)) in all.iter().enumerate() {
        if found.len() >= most {
            return;
        }
        let mut parts = parts.clone();
        if !parts.insert(*part) {
            continue;
        }
        chosen.push(*one);
        let rest = all.get(at + 1..).unwrap_or_default();
        add(rest, left - 1, (chosen, &parts), (found, most));
        chosen.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_candidate_is_left_behind_soon_and_no_part_is_chosen_twice() {
        // One that lies says that it is part 1, and sorts first.
        let all: Vec<(usize, usize)> = [(0, 1)]
            .into_iter()
            .chain((1..=8).map(|at| (at, at)))
            .collect();
        let found = choices(&all, 4, &BTreeSet::new(), 24);
        assert_eq!(found.len(), 24);
        assert_eq!(found[0], [0, 2, 3, 4]);
        assert_eq!(found[1], [1, 2, 3, 4]);
        for chosen in &found {
            let parts: BTreeSet<usize> = chosen.iter().map(|one| all[*one].1).collect();
            assert_eq!(parts.len(), 4, "{chosen:?}");
        }
    }

    #[test]
    fn every_choice_comes_once_where_there_are_few() {
        let all = [('a', 1), ('b', 1), ('c', 2), ('d', 3)];
        let mut found = choices(&all, 2, &BTreeSet::new(), 24);
        found.sort_unstable();
        assert_eq!(
            found,
            [['a', 'c'], ['a', 'd'], ['b', 'c'], ['b', 'd'], ['c', 'd']]
        );
        let found = choices(&all, 1, &BTreeSet::from([1]), 24);
        assert_eq!(found, [['c'], ['d']]);
        assert!(choices(&all, 4, &BTreeSet::new(), 24).is_empty());
    }
}
