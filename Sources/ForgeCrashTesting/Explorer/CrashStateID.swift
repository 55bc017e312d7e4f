/// The identifier of a state after a crash, from which ``CrashExplorer/replay(_:)`` reconstructs it.
///
/// It reads `posixStrict/0#17`: the profile, the seed in base 36, and the number of the state in the exploration, counted
/// from 1. It identifies the same state as long as program, profile, limit and depth are the same.
public struct CrashStateID: Hashable, Sendable, CustomStringConvertible {
    let profile: String
    let seed: UInt64
    let number: Int

    init(profile: String, seed: UInt64, number: Int) {
        self.profile = profile
        self.seed = seed
        self.number = number
    }

    /// Parses the identifier of a report; nil if the text is not one.
    public init?(_ text: String) {
        let sides = text.split(separator: "#", omittingEmptySubsequences: false)
        guard sides.count == 2, let slash = sides[0].lastIndex(of: "/"),
            let seed = UInt64(sides[0][sides[0].index(after: slash)...], radix: 36), let number = Int(sides[1]),
            number > 0
        else { return nil }
        self.init(profile: String(sides[0][..<slash]), seed: seed, number: number)
        guard description == text else { return nil }
    }

    public var description: String { "\(profile)/\(String(seed, radix: 36))#\(number)" }
}

/// One crash of a chain: of the program, or of the recovery from the crash before.
enum CrashLevel: Hashable, Sendable {
    /// The power failed after this number of changes.
    case powerCut(effectCount: Int)
    case kill(Kill)

    /// The end of a process.
    struct Kill: Hashable, Sendable {
        var effectCount: Int
        /// The bytes of the last change, a store, that were made; nil for all.
        var part: Range<Int>?
    }

    var kind: CrashKind {
        switch self {
        case .powerCut: .powerCut
        case .kill: .processKill
        }
    }

    var effectCount: Int {
        switch self {
        case .powerCut(let count): count
        case .kill(let kill): kill.effectCount
        }
    }
}

extension CrashLevel: CustomStringConvertible {
    var description: String {
        switch self {
        case .powerCut(let count): "power cut after change \(count)"
        case .kill(let kill):
            if let part = kill.part {
                "kill after bytes \(part.lowerBound)..<\(part.upperBound) of change \(kill.effectCount)"
            } else {
                "kill after change \(kill.effectCount)"
            }
        }
    }
}
