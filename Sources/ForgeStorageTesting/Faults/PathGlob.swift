public import ForgeFileSystem

/// A glob pattern for whole paths.
///
/// - `?` matches a character of a name, and `*` any number of them.
/// - `**` matches any number of bytes, including slashes.
/// - `**/` at the start of a name matches any number of whole directories, including none: `**/*.log` matches `a.log`,
///   `/a.log` and `/var/x/a.log`.
///
/// Every other byte matches itself. The pattern must match the whole path.
public struct PathGlob: Hashable, Sendable {
    private let text: String
    private let steps: [Step]

    /// The states of a nondeterministic automaton, one per position in the pattern.
    private enum Step: Hashable, Sendable {
        case byte(UInt8)
        /// The first byte of a character.
        case character
        /// The remaining bytes of a character.
        case continuation
        case name
        case path
        /// `**/`: skipped, or entered through the following `directories`.
        case optionalDirectories
        /// Any bytes up to and including a slash.
        case directories
    }

    /// Creates a pattern; every string is valid.
    public init(_ pattern: String) {
        text = pattern
        var steps: [Step] = []
        var rest = Array(pattern.utf8)[...]
        var isAtNameStart = true
        while let byte = rest.popFirst() {
            let wasAtNameStart = isAtNameStart
            isAtNameStart = byte == UInt8(ascii: "/")
            switch byte {
            case UInt8(ascii: "?"):
                steps += [.character, .continuation]
            case UInt8(ascii: "*") where rest.first == byte:
                rest.removeFirst()
                if wasAtNameStart, rest.first == UInt8(ascii: "/") {
                    rest.removeFirst()
                    isAtNameStart = true
                    steps += [.optionalDirectories, .directories]
                } else {
                    steps.append(.path)
                }
            case UInt8(ascii: "*"):
                steps.append(.name)
            default:
                steps.append(.byte(byte))
            }
        }
        self.steps = steps
    }

    /// Whether the pattern matches the whole path.
    ///
    /// - Complexity: O(length of the path · length of the pattern).
    public func matches(_ path: POSIXPath) -> Bool {
        var states = [Bool](repeating: false, count: steps.count + 1)
        states[0] = true
        advance(&states)
        for byte in path.bytes {
            states = self.states(after: byte, from: states)
        }
        return states[steps.count]
    }

    /// Whether the pattern matches any name in the directory of a path, other than one that begins with `#`.
    func matchesName(beside path: POSIXPath) -> Bool {
        let slash = UInt8(ascii: "/")
        var start = [Bool](repeating: false, count: steps.count + 1)
        start[0] = true
        advance(&start)
        for byte in path.bytes.prefix(path.count - path.splitLast().name.count) {
            start = states(after: byte, from: start)
        }
        // The positions that are reachable by one byte or more of a name.
        var reached = [Bool](repeating: false, count: steps.count + 1)
        for (index, step) in steps.enumerated() where start[index] || reached[index] {
            switch step {
            // Whole directories begin at the start of a name.
            case .byte(slash), .optionalDirectories, .directories: break
            case .byte(UInt8(ascii: "#")) where !reached[index]: break
            default: reached[index + 1] = true
            }
        }
        return reached[steps.count]
    }

    private func states(after byte: UInt8, from states: [Bool]) -> [Bool] {
        let slash = UInt8(ascii: "/")
        var next = [Bool](repeating: false, count: states.count)
        for (index, step) in steps.enumerated() where states[index] {
            switch step {
            case .byte(let expected): if byte == expected { next[index + 1] = true }
            case .character: if byte != slash { next[index + 1] = true }
            case .continuation: if byte & 0xC0 == 0x80 { next[index] = true }
            case .name: if byte != slash { next[index] = true }
            case .path: next[index] = true
            case .optionalDirectories: break
            case .directories:
                next[index] = true
                if byte == slash { next[index + 1] = true }
            }
        }
        advance(&next)
        return next
    }

    /// Enters the states that are reachable without reading a byte.
    private func advance(_ states: inout [Bool]) {
        for (index, step) in steps.enumerated() where states[index] {
            switch step {
            case .name, .path, .continuation: states[index + 1] = true
            case .optionalDirectories:
                states[index + 1] = true
                states[index + 2] = true
            case .byte, .character, .directories: break
            }
        }
    }
}

extension PathGlob: ExpressibleByStringLiteral {
    public init(stringLiteral value: String) {
        self.init(value)
    }
}

extension PathGlob: CustomStringConvertible {
    public var description: String { text }
}
