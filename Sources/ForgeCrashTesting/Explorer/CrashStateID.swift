/// The identifier of a state after a crash, from which the state can be reconstructed.
///
/// It reads `posixStrict/0>op17:n=0110:i5=1/0/2.0`: the profile and the seed; the number of effects before the crash;
/// for each change of a name that was not durable, whether it was made; and for each file with undecided properties its
/// inode and the indices of its size, its attributes and the version of each block. A crash during recovery adds
/// another `>op…`. A kill reads `>kill17`, or `>kill17/0-24` if only those bytes of the last store were made.
public struct CrashStateID: Hashable, Sendable, CustomStringConvertible {
    struct File: Hashable, Sendable {
        var inode: UInt64
        var choice: FileChoice
    }

    struct PowerCut: Hashable, Sendable {
        var effectCount: Int
        var names: [Bool]
        var files: [File]
    }

    struct Kill: Hashable, Sendable {
        var effectCount: Int
        /// The bytes of the last change, a store, that were made; nil for all.
        var part: Range<Int>?
    }

    /// One crash.
    enum Level: Hashable, Sendable {
        case powerCut(PowerCut)
        case kill(Kill)

        var kind: CrashKind {
            switch self {
            case .powerCut: .powerCut
            case .kill: .processKill
            }
        }

        var effectCount: Int {
            switch self {
            case .powerCut(let cut): cut.effectCount
            case .kill(let kill): kill.effectCount
            }
        }
    }

    let profile: String
    let seed: UInt64
    let levels: [Level]

    init(profile: String, seed: UInt64, levels: [Level]) {
        self.profile = profile
        self.seed = seed
        self.levels = levels
    }

    /// Parses the identifier of a report; nil if the text is not one.
    public init?(_ text: String) {
        let parts = text.split(separator: ">", omittingEmptySubsequences: false)
        guard parts.count >= 2, let slash = parts[0].lastIndex(of: "/"),
            let seed = UInt64(parts[0][parts[0].index(after: slash)...])
        else { return nil }
        var levels: [Level] = []
        for part in parts.dropFirst() {
            guard let level = Level(part) else { return nil }
            levels.append(level)
        }
        self.init(profile: String(parts[0][..<slash]), seed: seed, levels: levels)
    }

    public var description: String {
        "\(profile)/\(seed)" + levels.map { ">\($0)" }.joined()
    }
}

extension CrashStateID.Level: CustomStringConvertible {
    init?(_ text: Substring) {
        if let kill = CrashStateID.Kill(text) {
            self = .kill(kill)
        } else if let cut = CrashStateID.PowerCut(text) {
            self = .powerCut(cut)
        } else {
            return nil
        }
    }

    var description: String {
        switch self {
        case .powerCut(let cut): "\(cut)"
        case .kill(let kill): "\(kill)"
        }
    }
}

extension CrashStateID.Kill: CustomStringConvertible {
    init?(_ text: Substring) {
        guard text.hasPrefix("kill") else { return nil }
        let fields = text.dropFirst(4).split(separator: "/", omittingEmptySubsequences: false)
        guard let count = fields.first.flatMap({ Int($0) }), count >= 0, fields.count <= 2 else { return nil }
        effectCount = count
        guard fields.count == 2 else { return }
        let bounds = fields[1].split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
        guard bounds.count == 2, let lower = bounds[0], let upper = bounds[1], lower >= 0, lower < upper else {
            return nil
        }
        part = lower..<upper
    }

    var description: String {
        "kill\(effectCount)" + (part.map { "/\($0.lowerBound)-\($0.upperBound)" } ?? "")
    }
}

extension CrashStateID.PowerCut: CustomStringConvertible {
    init?(_ text: Substring) {
        let fields = text.split(separator: ":", omittingEmptySubsequences: false)
        guard fields.count >= 2, fields[0].hasPrefix("op"), fields[1].hasPrefix("n="),
            let count = Int(fields[0].dropFirst(2)), count >= 0
        else { return nil }
        let bits = fields[1].dropFirst(2)
        guard bits.allSatisfy({ $0 == "0" || $0 == "1" }) else { return nil }
        effectCount = count
        names = bits.map { $0 == "1" }
        files = []
        for field in fields.dropFirst(2) {
            guard let file = CrashStateID.File(field) else { return nil }
            files.append(file)
        }
    }

    var description: String {
        "op\(effectCount):n=" + names.map { $0 ? "1" : "0" }.joined() + files.map { ":\($0)" }.joined()
    }
}

extension CrashStateID.File: CustomStringConvertible {
    init?(_ text: Substring) {
        let sides = text.split(separator: "=", omittingEmptySubsequences: false)
        guard sides.count == 2, sides[0].first == "i", let inode = UInt64(sides[0].dropFirst()) else { return nil }
        let parts = sides[1].split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 3, let size = Int(parts[0]), let attributes = Int(parts[1]) else { return nil }
        let blocks = parts[2].split(separator: ".").map { Int($0) }
        let known = blocks.compactMap(\.self)
        guard known.count == blocks.count else { return nil }
        self.init(inode: inode, choice: FileChoice(size: size, attributes: attributes, blocks: known))
    }

    var description: String {
        "i\(inode)=\(choice.size)/\(choice.attributes)/" + choice.blocks.map(String.init).joined(separator: ".")
    }
}
