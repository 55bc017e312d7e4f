import Foundation

/// The depth of the tests in a run: small by default, large if `FORGE_DEEP` is set.
///
/// The checks are the same. A default run uses fixed seeds and small limits; a deep run adds random seeds and raises
/// the limits.
package enum TestDepth {
    /// Whether this is a deep run.
    package static let isDeep = ProcessInfo.processInfo.environment["FORGE_DEEP"] != nil

    /// The time after which an asynchronous test counts as hanging; it includes waiting for synchronous tests.
    package static let hangLimitInMinutes = isDeep ? 120 : 10

    /// The same time, for a test that waits.
    package static let hangLimit = Duration.seconds(60 * hangLimitInMinutes)

    /// A limit of a check.
    package static func limit(_ quick: Int, deep: Int) -> Int { isDeep ? deep : quick }

    /// Seeds of a check; a deep run adds as many random ones. A failure must show its seed.
    package static func seeds(_ fixed: [UInt64], random count: Int) -> [UInt64] {
        fixed + (0..<(isDeep ? count : 0)).map { _ in UInt64.random(in: .min ... .max) }
    }

    /// All of `cases` in a deep run, otherwise every `step`th; a step prime to 8 covers all bits of a byte.
    package static func sample<Cases: RandomAccessCollection>(_ cases: Cases, every step: Int) -> [Cases.Element] {
        isDeep ? Array(cases) : cases.enumerated().filter { $0.offset.isMultiple(of: step) }.map(\.element)
    }

    /// Every pair of a case of each list in a deep run, otherwise each case of the first with one of the second, in turn.
    package static func pairs<First, Second>(_ first: [First], _ second: [Second]) -> [(First, Second)] {
        first.enumerated().flatMap { index, one in
            (isDeep ? second : [second[index % second.count]]).map { (one, $0) }
        }
    }

    /// All of `checks` in a deep run, otherwise those that `isExpected`, and a quarter of the others, by `turn`: what a
    /// planted defect is tested with.
    package static func checks<Check>(
        _ checks: [Check], turn: Int, including isExpected: (Check) -> Bool
    ) -> [Check] {
        isDeep
            ? checks
            : checks.enumerated().filter { ($0.offset + turn).isMultiple(of: 4) || isExpected($0.element) }.map(
                \.element)
    }

    /// All of `checks` in a deep run, otherwise those whose description does not contain `text`: a slow check of a
    /// layer, which a default run makes on the layer's base.
    package static func leavingOut<Check: CustomStringConvertible>(_ text: String, of checks: [Check]) -> [Check] {
        isDeep ? checks : checks.filter { !$0.description.contains(text) }
    }
}

/// Lets other threads run between two steps of a planted defect, also on a single processor: a single `sched_yield()`
/// did so too rarely beside other tests.
package func passTime() {
    let end = ContinuousClock.now + .microseconds(50)
    while ContinuousClock.now < end { sched_yield() }
}
