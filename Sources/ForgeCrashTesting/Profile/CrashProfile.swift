/// What a crash may do: the assumptions that a program may make of the file system under it, and no others.
///
/// A program that holds under ``posixStrict`` holds on every file system that the rules of the guide contain. The
/// weaker profiles name the assumption that a program makes which does not (Pillai et al., "All File Systems Are Not
/// Created Equal", OSDI 2014).
public struct CrashProfile: Hashable, Sendable {
    /// Which changes of names a crash leaves.
    public enum Names: Hashable, Sendable {
        /// Any of those that are not durable, applied in their order.
        case anySubset
        /// Those up to some moment, in the order of all directories together, as a single journal does.
        case orderedPrefix
        /// All of them.
        case all
        /// Those that are durable, and no others.
        case durable
    }

    /// Which of the versions since the last synchronisation a crash leaves.
    public enum Versions: Hashable, Sendable {
        /// Any of them.
        case any
        /// The last one.
        case last
        /// The one that was synchronised.
        case durable
    }

    /// How a block can be torn.
    public enum Tearing: Hashable, Sendable {
        /// A block is written whole or not at all.
        case none
        /// At any multiple of 512 bytes: a prefix is new, the rest old.
        case sectors
        /// As `sectors`, and after any byte of what was appended.
        case anyByteOfAppends
    }

    /// The name that reports and identifiers of states show.
    public var name: String
    /// Which changes of names a crash leaves.
    public var names = Names.anySubset
    /// Whether a file that was renamed across directories may have both names.
    public var splitsRenames = true
    /// Whether `fsync` of a new file or directory makes its own name, and those above it, durable too.
    public var keepsFreshNames = false
    /// Which version each block of 4096 bytes has.
    public var blocks = Versions.any
    /// Which size a file has.
    public var sizes = Versions.any
    /// Which permissions, owner and explicitly set times a file has.
    public var attributes = Versions.any
    /// How a block may be torn.
    public var tearing = Tearing.sectors
    /// Whether a store through a mapping may be there in part, up to or from any multiple of 8 bytes: the page may be
    /// written out, or the process die, while the bytes are copied.
    public var tearsStores = true
    /// Whether a synchronisation covers what was stored through mappings and not written back, as on Linux.
    public var synchronizesStores = false
    /// Whether blocks that were never durable may hold arbitrary bytes instead of zeros (`data=writeback`).
    public var leavesGarbage = false
    /// Whether bytes that the program did not write stay as they are in a sector that it wrote to.
    public var isOverwritePowersafe = true

    /// A profile with the strictest rules, to be relaxed or sharpened.
    public init(name: String) {
        self.name = name
    }

    /// What POSIX promises, and nothing more: the default.
    public static let posixStrict = CrashProfile(name: "posixStrict")

    /// As ``posixStrict``, but `fsync` of a new file keeps its name, and the `fsync` of a file covers what was stored
    /// through its mappings: what ext4, XFS and btrfs do.
    public static let freshInode: CrashProfile = {
        var profile = CrashProfile(name: "freshInode")
        profile.keepsFreshNames = true
        profile.synchronizesStores = true
        return profile
    }()

    /// As ``freshInode``, with all changes of names in one journal: what ext4 and XFS do.
    public static let orderedNames: CrashProfile = {
        var profile = freshInode
        profile.name = "orderedNames"
        profile.names = .orderedPrefix
        profile.splitsRenames = false
        return profile
    }()

    /// The process is killed and the system lives on: everything written is kept, and a part of the store that was
    /// being made.
    public static let processKill = keeping(named: "processKill")

    /// The power fails after everything happened to reach the device. The same states as ``processKill``.
    public static let keepAll = keeping(named: "keepAll")

    /// The power fails, and nothing has reached the device that was not synchronised.
    public static let dropAllUnsynced: CrashProfile = {
        var profile = CrashProfile(name: "dropAllUnsynced")
        profile.names = .durable
        profile.blocks = .durable
        profile.sizes = .durable
        profile.attributes = .durable
        profile.tearing = .none
        return profile
    }()

    private static func keeping(named name: String) -> CrashProfile {
        var profile = CrashProfile(name: name)
        profile.names = .all
        profile.splitsRenames = false
        profile.blocks = .last
        profile.sizes = .last
        profile.attributes = .last
        profile.tearing = .none
        return profile
    }

    /// The same profile without one of its rules.
    public func without(_ rule: CrashRule) -> CrashProfile {
        var profile = self
        profile.name += " without \(rule)"
        switch rule {
        case .losesNames:
            profile.names = .all
            profile.splitsRenames = false
        case .splitsRenames: profile.splitsRenames = false
        case .losesBlocks:
            profile.blocks = .last
            profile.tearing = .none
            profile.tearsStores = false
        case .losesSizes: profile.sizes = .last
        case .losesAttributes: profile.attributes = .last
        case .tearsBlocks:
            profile.tearing = .none
            profile.tearsStores = false
        }
        return profile
    }

    /// The profiles that allow less than this one, the strictest first.
    var weaker: [CrashProfile] {
        let chain: [CrashProfile] = [.posixStrict, .freshInode, .orderedNames, .processKill]
        guard let place = chain.firstIndex(where: { $0.name == name }) else { return [.processKill] }
        return Array(chain[(place + 1)...])
    }

    /// Whether every state right before a change is a state right after it too, so that only some moments need a look.
    var isMonotonic: Bool { names != .all && blocks != .last && sizes != .last && attributes != .last }
}

extension CrashProfile {
    /// Whether the two allow different states, whatever they are called.
    func differs(from other: CrashProfile) -> Bool {
        var renamed = self
        renamed.name = other.name
        return renamed != other
    }
}
