#if Etcd
/// The version of a server.
struct EtcdVersion: Hashable, Sendable {
    private var numbers: [Int]

    /// Reads `3.4.36`, or `3.6.0-rc.1`; nil for anything else.
    init?(_ text: String) {
        let numbers = text.prefix { $0 != "-" && $0 != "+" }.split(separator: ".", omittingEmptySubsequences: false)
            .map { Int($0) }
        guard numbers.count == 3, numbers.allSatisfy({ $0 != nil }) else { return nil }
        self.numbers = numbers.compactMap(\.self)
    }

    /// Whether a watch from a revision reports every event, and its progress notices are in order.
    ///
    /// Older servers lose events around a compaction and send progress notices before the events they cover
    /// (CHANGELOG-3.4 and CHANGELOG-3.5 of etcd, 3.4.36 and 3.5.18).
    var replaysChanges: Bool {
        switch (numbers[0], numbers[1]) {
        case (3, 4): numbers[2] >= 36
        case (3, 5): numbers[2] >= 18
        default: numbers[0] > 3 || (numbers[0] == 3 && numbers[1] > 5)
        }
    }
}
#endif
