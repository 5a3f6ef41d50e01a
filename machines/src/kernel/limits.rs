//! Bounds of the kernel, each with its reason.

/// Transitions within one step. The longest chain of any machine has four; twice that is a bug.
pub const HOPS_MAX: u8 = 8;
/// Bytes of a message that is stored. Two of them with their reason fit a condition's 32 KiB many times over,
/// and a status with 64 components stays far below etcd's 1.5 MiB.
pub const MESSAGE_BYTES_MAX: usize = 1024;

/// Cuts a message in its middle, at character borders, so that its beginning and its root cause survive.
pub fn bounded(message: &str) -> String {
    if message.len() <= MESSAGE_BYTES_MAX {
        return message.to_owned();
    }
    const GAP: &str = " … ";
    let half = (MESSAGE_BYTES_MAX - GAP.len()) / 2;
    let head = message.floor_char_boundary(half);
    let tail = message.ceil_char_boundary(message.len() - half);
    let (start, end) = (message.get(..head).unwrap_or(""), message.get(tail..).unwrap_or(""));
    format!("{start}{GAP}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_keeps_its_beginning_and_its_end() {
        let cut = bounded(&format!("begin{}end", "ä".repeat(2000)));
        assert!(cut.len() <= MESSAGE_BYTES_MAX && cut.starts_with("begin") && cut.ends_with("end"), "{cut}");
        assert_eq!(bounded("short"), "short");
    }
}
