import Foundation

/// The key of a cache entry, compared by its bytes: strings that are equal in Swift (canonical equivalence) may be
/// different keys.
struct CacheKey: Hashable, Sendable {
    let string: String

    init(_ string: String) {
        self.string = string
    }

    static func == (left: CacheKey, right: CacheKey) -> Bool {
        left.string.utf8.count == right.string.utf8.count
            && left.withBytes { left in
                right.withBytes { right in
                    guard let first = left.baseAddress, let second = right.baseAddress else { return true }
                    return memcmp(first, second, left.count) == 0
                }
            }
    }

    func hash(into hasher: inout Hasher) {
        withBytes { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }

    private func withBytes<Result>(_ body: (UnsafeBufferPointer<UInt8>) -> Result) -> Result {
        if let result = string.utf8.withContiguousStorageIfAvailable(body) { return result }
        var copy = string
        return copy.withUTF8(body)
    }
}
