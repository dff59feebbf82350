//! Whether a name can be the name of an image: `[host[:port]/]path[:tag][@digest]`. Whether there is
//! such an image is the runtime's to say.

const TAG_MAX: usize = 128;
const NAME_MAX: usize = 255;

/// Says what is wrong with a name.
pub(super) fn check(name: &str) -> Result<(), &'static str> {
    let (name, digest) = match name.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (name, None),
    };
    // A colon before the last slash belongs to the port of a host.
    let place = name.rfind(':').filter(|place| name.rfind('/').is_none_or(|slash| slash < *place));
    let (path, tag) = match place.and_then(|place| name.split_at_checked(place)) {
        Some((path, tag)) => (path, Some(tag.trim_start_matches(':'))),
        None => (name, None),
    };
    if path.len() > NAME_MAX {
        return Err("repository name must not be more than 255 characters");
    }
    let mut parts: Vec<&str> = path.split('/').collect();
    let first = parts.first().copied().unwrap_or_default();
    let is_host = parts.len() > 1 && (first.contains(['.', ':']) || first == "localhost");
    if is_host {
        parts.remove(0);
    }
    let whole = (!is_host || host(first))
        && parts.iter().all(|part| component(part))
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest);
    if whole { Ok(()) } else { Err("invalid reference format") }
}

fn host(host: &str) -> bool {
    let (name, port) = host.split_once(':').unwrap_or((host, "0"));
    let label = |label: &str| {
        !label.is_empty()
            && label.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.split('.').all(label) && !port.is_empty() && port.chars().all(|c| c.is_ascii_digit())
}

/// Lower-case words with single separators between them: `.`, `_`, `__` or any number of `-`.
fn component(part: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let separators = part.split(is_word).filter(|between| !between.is_empty());
    part.starts_with(is_word)
        && part.ends_with(is_word)
        && separators.into_iter().all(|between| {
            matches!(between, "." | "_" | "__") || between.chars().all(|letter| letter == '-')
        })
}

fn is_tag(tag: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    tag.len() <= TAG_MAX
        && tag.starts_with(is_word)
        && tag.chars().all(|letter| is_word(letter) || letter == '.' || letter == '-')
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    algorithm.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && hex.len() >= 32
        && hex.chars().all(|letter| letter.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_registries_know_pass_and_others_do_not() {
        let digest = format!("busybox@sha256:{}", "a".repeat(64));
        let good = [
            "busybox",
            "localhost/busybox:1",
            "localhost:5000/a/b-c__d.e:V1.0_x",
            "registry.example.com/team/image",
            "a--b",
            digest.as_str(),
        ];
        for name in good {
            assert_eq!(check(name), Ok(()), "{name}");
        }
        let long = "a".repeat(256);
        let bad = [
            "",
            "Busybox",
            "busybox:",
            "busybox:-1",
            "a//b",
            "/a",
            "a/",
            "a b",
            "a..b",
            "a___b",
            "localhost:x/a",
            "busybox@sha256:12",
            "a@b",
            "-a",
            "héllo",
            ":1",
            "@",
            long.as_str(),
        ];
        for name in bad {
            assert!(check(name).is_err(), "{name}");
        }
    }
}
