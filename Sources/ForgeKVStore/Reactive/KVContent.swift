/// What elements of a stream are compared by.
enum KVContent: Equatable, Sendable {
    case absent
    case bytes([UInt8])

    /// Nothing is known, so that it is like nothing else.
    case unknown

    static func == (left: KVContent, right: KVContent) -> Bool {
        switch (left, right) {
        case (.absent, .absent): true
        case (.bytes(let left), .bytes(let right)): left == right
        default: false
        }
    }
}

/// How far the consumer of a stream has come.
enum KVStreamProgress: Sendable {
    /// It was handed what was written.
    case handed

    /// It has come back for more.
    case finished
}
