/// A number of a table, with its unit.
public enum Figure: Sendable {
    case nanoseconds(Double)
    case bytes(Double)

    /// A multiple of the reference.
    case factor(Double)
}

extension Figure: CustomStringConvertible {
    public var description: String {
        switch self {
        case .nanoseconds(let number) where number < 10_000: "\(rounded(number, 1)) ns"
        case .nanoseconds(let number) where number < 1_000_000: "\(rounded(number / 1000, 1)) us"
        case .nanoseconds(let number): "\(rounded(number / 1_000_000, 2)) ms"
        case .bytes(let number) where abs(number) < 10_240: "\(Int(number)) B"
        case .bytes(let number) where abs(number) < 10 * 1_048_576: "\(rounded(number / 1024, 1)) KiB"
        case .bytes(let number): "\(rounded(number / 1_048_576, 1)) MiB"
        case .factor(let number): "\(rounded(number, 2))x"
        }
    }

    private func rounded(_ number: Double, _ digits: Int) -> String {
        let scale = (0..<digits).reduce(1.0) { scale, _ in scale * 10 }
        return "\((number * scale).rounded() / scale)"
    }
}
