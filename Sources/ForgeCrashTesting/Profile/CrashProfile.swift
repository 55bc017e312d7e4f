/// The permitted effects of a crash, that is, the only guarantees of the file system that a program may rely on.
///
/// A program that holds under ``posixStrict`` holds on every file system that follows the rules of the guide. The
/// weaker profiles identify the additional assumption of a program that does not (Pillai et al., "All File Systems Are
/// Not Created Equal", OSDI 2014).
public struct CrashProfile: Hashable, Sendable {
    /// The changes of names that a crash keeps.
    public enum Names: Hashable, Sendable {
        /// Any subset of those that are not durable, applied in order.
        case anySubset
        /// Those up to some moment, in order over all directories, as with a single journal.
        case orderedPrefix
        /// All of them.
        case all
        /// Only the durable ones.
        case durable
    }

    /// The version since the last synchronisation that a crash keeps.
    public enum Versions: Hashable, Sendable {
        /// Any of them.
        case any
        /// The last one.
        case last
        /// The synchronised one.
        case durable
    }

    /// How a block can be torn.
    public enum Tearing: Hashable, Sendable {
        /// A block is written whole or not at all.
        case none
        /// At any multiple of 512 bytes: a new prefix and an old rest.
        case sectors
        /// As `sectors`, and also after any byte of appended data.
        case anyByteOfAppends
    }

    /// The name in reports and in identifiers of states.
    public var name: String
    /// The changes of names that a crash keeps.
    public var names = Names.anySubset
    /// Whether a file that was renamed across directories may have both names.
    public var splitsRenames = true
    /// Whether `fsync` of a new file or directory also makes its own name, and those above it, durable.
    public var keepsFreshNames = false
    /// The version of each block of 4096 bytes.
    public var blocks = Versions.any
    /// The size of a file.
    public var sizes = Versions.any
    /// The permissions, owner and explicitly set times of a file.
    public var attributes = Versions.any
    /// How a block may be torn.
    public var tearing = Tearing.sectors
    /// Whether a store through a mapping may be partial, up to or from any multiple of 8 bytes: the page may be written
    /// back, or the process killed, during the copy.
    public var tearsStores = true
    /// Whether a synchronisation covers stores through mappings that were not written back, as on Linux.
    public var synchronizesStores = false
    /// Whether blocks that were never durable may contain arbitrary bytes instead of zeros (`data=writeback`).
    public var leavesGarbage = false
    /// Whether a write leaves the other bytes of its sectors unchanged.
    public var isOverwritePowersafe = true

    /// A profile with the strictest rules, to be modified.
    public init(name: String) {
        self.name = name
    }

    /// The guarantees of POSIX and nothing more: the default.
    public static let posixStrict = CrashProfile(name: "posixStrict")

    /// ``posixStrict``, but `fsync` of a new file also makes its name durable, and `fsync` covers stores through
    /// mappings, as on ext4, XFS and btrfs.
    public static let freshInode: CrashProfile = {
        var profile = CrashProfile(name: "freshInode")
        profile.keepsFreshNames = true
        profile.synchronizesStores = true
        return profile
    }()

    /// ``freshInode`` with all changes of names in one journal, as on ext4 and XFS.
    public static let orderedNames: CrashProfile = {
        var profile = freshInode
        profile.name = "orderedNames"
        profile.names = .orderedPrefix
        profile.splitsRenames = false
        return profile
    }()

    /// The process is killed and the system continues: everything written is kept, and part of a store in progress.
    public static let processKill = keeping(named: "processKill")

    /// The power fails after all changes have reached the device. The same states as ``processKill``.
    public static let keepAll = keeping(named: "keepAll")

    /// The power fails, and only synchronised changes have reached the device.
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

    /// The profiles that allow fewer states than this one, the strictest first.
    var weaker: [CrashProfile] {
        let chain: [CrashProfile] = [.posixStrict, .freshInode, .orderedNames, .processKill]
        guard let place = chain.firstIndex(where: { $0.name == name }) else { return [.processKill] }
        return Array(chain[(place + 1)...])
    }

    /// Whether every state possible just before a change is also possible just after it, so that only some moments need
    /// a visit.
    var isMonotonic: Bool { names != .all && blocks != .last && sizes != .last && attributes != .last }
}

extension CrashProfile {
    /// Whether the two allow different states, regardless of their names.
    func differs(from other: CrashProfile) -> Bool {
        var renamed = self
        renamed.name = other.name
        return renamed != other
    }
}

/// A possible effect of a power cut on changes that were not synchronised.
public enum CrashRule: String, Hashable, Sendable, CaseIterable {
    /// Changes of names not followed by an `fsync` of their directory may be lost independently.
    case losesNames = "a change of a name may be lost until its directory is synchronised"

    /// A file that was renamed into another directory may have both names.
    case splitsRenames = "a file renamed across directories may have both names"

    /// Every block of a file may have any of its contents since the last `fsync`.
    case losesBlocks = "a block may hold any of its versions until its file is synchronised"

    /// A file may have any of its sizes since the last `fsync`, independent of its blocks.
    case losesSizes = "a size may be any that the file had until the file is synchronised"

    /// Permissions, owner and explicitly set times may be the old ones.
    case losesAttributes = "attributes may be the old ones until the file is synchronised"

    /// A block may be new up to a sector boundary and old after it.
    case tearsBlocks = "a block may be torn at the border of a sector"
}
