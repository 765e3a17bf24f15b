//! Finds the known name that a misspelt one most likely stands for.

/// The known name that takes the fewest edits, with their number.
pub(crate) fn closest<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<(usize, &'a str)> {
    // Bounded, since the name is the user's and the distance is quadratic.
    let name: String = name.chars().take(100).collect();
    known
        .into_iter()
        .map(|candidate| (edit_distance(&name, candidate), candidate))
        .min()
}

/// `did you mean 'x'? `, or nothing when no known name is near.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match closest(name, known) {
        Some((edits, candidate)) if edits <= candidate.chars().count() / 3 => {
            format!("did you mean '{candidate}'? ")
        }
        _ => String::new(),
    }
}

/// Insertions, deletions and replacements of characters.
fn edit_distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, from) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in right.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_suggested_and_far_ones_are_not() {
        let known = ["datagen", "filesystem", "nexmark"];
        for (name, suggested) in [
            ("filesytem", "did you mean 'filesystem'? "),
            ("file-system", "did you mean 'filesystem'? "),
            ("nexmrak", "did you mean 'nexmark'? "),
            ("kafka", ""),
            ("", ""),
        ] {
            assert_eq!(did_you_mean(name, known), suggested, "{name}");
        }
        assert_eq!(did_you_mean("x", []), "");
        assert_eq!(closest("filesystemX", known), Some((1, "filesystem")));
    }
}
