/// The identity of a stream element, used to drop repeated values.
enum KVContent: Equatable, Sendable {
    case absent
    case bytes([UInt8])

    /// Unknown content, which equals nothing.
    case unknown

    static func == (left: KVContent, right: KVContent) -> Bool {
        switch (left, right) {
        case (.absent, .absent): true
        case (.bytes(let left), .bytes(let right)): left == right
        default: false
        }
    }
}

/// The progress of a stream's consumer.
enum KVStreamProgress: Sendable {
    /// The consumer has received the element.
    case delivered

    /// The consumer has requested the next element.
    case processed
}
