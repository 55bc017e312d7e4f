#if Etcd
/// The waits between the attempts of a call: a random part of a limit that doubles ("full jitter").
struct EtcdBackoff: Sendable {
    private(set) var attempts = 0

    static let first = Duration.milliseconds(25)
    static let longest = Duration.seconds(1)

    /// The next wait.
    mutating func next(using generator: inout some RandomNumberGenerator) -> Duration {
        let limit = min(Self.longest, Self.first * (1 << min(attempts, 10)))
        attempts += 1
        return limit * Double.random(in: 0...1, using: &generator)
    }
}
#endif
