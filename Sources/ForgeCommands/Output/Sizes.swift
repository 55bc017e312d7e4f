/// A number of bytes in the largest unit that fits: `512 B`, `1.5 KiB`, `12 MiB`.
func readableSize(_ bytes: Int) -> String {
    var size = Double(bytes)
    var unit = "B"
    for larger in ["KiB", "MiB", "GiB", "TiB"] where size >= 1024 {
        size /= 1024
        unit = larger
    }
    guard unit != "B", size < 10 else { return "\(Int(size.rounded())) \(unit)" }
    let tenths = Int((size * 10).rounded())
    return "\(tenths / 10).\(tenths % 10) \(unit)"
}

/// A count with its noun: `1 key`, `2 keys`.
func counted(_ count: Int, _ thing: String) -> String {
    count == 1 ? "1 \(thing)" : "\(count) \(thing)s"
}

extension String {
    /// The text, or its beginning and an ellipsis if it has more characters than `limit`.
    func shortened(to limit: Int) -> String {
        guard let end = index(startIndex, offsetBy: limit, limitedBy: endIndex), end < endIndex else { return self }
        return prefix(limit - 1) + "…"
    }
    /// The text, or its beginning and end around an ellipsis if it has more characters than `limit`.
    func shortenedInside(to limit: Int) -> String {
        guard count > limit else { return self }
        return prefix(limit / 2) + "…" + suffix(limit - limit / 2 - 1)
    }
}
