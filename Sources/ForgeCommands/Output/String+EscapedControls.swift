extension String {
    /// The text with each control character shown as `\xNN`, byte by byte, so that it cannot control a terminal.
    func escapingControls(except kept: Set<Unicode.Scalar> = []) -> String {
        escaping { scalar in
            guard scalar.controlsTerminal, !kept.contains(scalar) else { return nil }
            return Unicode.UTF8.encode(scalar)?.map { "\\x" + $0.hexadecimal(width: 2) }.joined()
        }
    }

    /// JSON text with each control character in a string escaped as `\uNNNN`; the value is unchanged.
    ///
    /// JSON itself escapes only U+0000 to U+001F (RFC 8259, section 7). Line feeds are kept: they separate tokens, and
    /// every other control character can only be inside a string.
    func escapingControlsOfJSON() -> String {
        escaping { scalar in
            guard scalar.controlsTerminal, scalar != "\n" else { return nil }
            return "\\u" + scalar.value.hexadecimal(width: 4)
        }
    }

    private func escaping(_ replacement: (Unicode.Scalar) -> String?) -> String {
        guard unicodeScalars.contains(where: \.controlsTerminal) else { return self }
        var text = ""
        for scalar in unicodeScalars {
            if let escape = replacement(scalar) { text += escape } else { text.unicodeScalars.append(scalar) }
        }
        return text
    }
}

extension Unicode.Scalar {
    /// Whether the scalar is a control character, a line separator, or changes the text direction.
    fileprivate var controlsTerminal: Bool {
        switch value {
        case 0..<0x20, 0x7F...0x9F, 0x061C, 0x200E...0x200F, 0x2028...0x202E, 0x2066...0x2069: true
        default: false
        }
    }
}

extension BinaryInteger {
    fileprivate func hexadecimal(width: Int) -> String {
        let digits = String(self, radix: 16)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }
}
