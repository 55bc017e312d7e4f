#if Etcd || S3
/// The waits between the attempts of a call: a random part of a limit that doubles ("full jitter").
package struct Backoff: Sendable {
    package private(set) var attempts = 0

    package static let first = Duration.milliseconds(25)
    package static let longest = Duration.seconds(1)

    package init() {}

    /// The next wait.
    package mutating func next(using generator: inout some RandomNumberGenerator) -> Duration {
        let limit = min(Self.longest, Self.first * (1 << min(attempts, 10)))
        attempts += 1
        return limit * Double.random(in: 0...1, using: &generator)
    }
}
#endif
