import ForgeFileSystem
import SystemPackage

/// All possible states after a crash at one moment.
struct StateSpace: Sendable {
    let model: CrashModel
    /// The undecided changes of names.
    let undecided: [NameChange]
    /// The undetermined files.
    let files: [UInt64: FileChoices]

    /// Above this number of changes of names, their combinations are not counted individually.
    private static let exactCountLimit = 12

    /// The states of a model; `earlier` is the space of the same model before some of its changes, whose choices for
    /// unchanged files are reused.
    init(_ model: CrashModel, seed: UInt64, after earlier: StateSpace? = nil) {
        self.model = model
        undecided = model.undecided
        var files: [UInt64: FileChoices] = [:]
        for (number, history) in model.files where !history.isSettled {
            if let known = earlier?.files[number], known.revision == history.revision {
                files[number] = known
            } else {
                files[number] = FileChoices(history, model.profile, seed: seed)
            }
        }
        self.files = files
    }

    // MARK: Names

    /// The number of combinations of name changes, including illegal ones; nil if there are too many.
    var nameChoiceCount: Int? {
        switch model.profile.names {
        case .all, .durable: 1
        case .orderedPrefix: undecided.count + 1
        case .anySubset: undecided.count < 48 ? 1 << undecided.count : nil
        }
    }

    /// One of the combinations: whether each undecided change was made.
    func names(at index: Int) -> [Bool] {
        switch model.profile.names {
        case .all: namesIfAllKept
        case .durable: namesIfAllLost
        case .orderedPrefix: undecided.indices.map { $0 < index }
        case .anySubset: undecided.indices.map { index >> $0 & 1 == 1 }
        }
    }

    /// The combination with no undecided change made; with all if the profile loses none.
    var namesIfAllLost: [Bool] {
        [Bool](repeating: model.profile.names == .all, count: undecided.count)
    }

    /// The combination with all undecided changes made; with none if the profile keeps none.
    var namesIfAllKept: [Bool] {
        [Bool](repeating: model.profile.names != .durable, count: undecided.count)
    }

    /// Whether every removed old name has its new name.
    private func isLegal(_ names: [Bool]) -> Bool {
        for (place, change) in undecided.enumerated() where names[place] {
            guard let required = change.requires else { continue }
            if let other = undecided.firstIndex(where: { $0.number == required }), !names[other] { return false }
        }
        return true
    }

    /// The tree for a combination of name changes; nil if it is illegal.
    func tree(_ names: [Bool]) -> CrashedTree? {
        lists(names).flatMap { CrashedTree(model, names, $0, files) }
    }

    /// The entries of each directory for a combination of name changes; nil if it is illegal.
    private func lists(_ names: [Bool]) -> [UInt64: NameList]? {
        guard names.count == undecided.count, isLegal(names) else { return nil }
        var lists = model.names
        var place = 0
        for change in model.changes {
            var isMade = true
            if !change.isDurable {
                isMade = names[place]
                place += 1
            }
            if isMade { lists.apply(change) }
        }
        return lists
    }

    // MARK: Counting

    /// The number of states before equal ones are merged.
    ///
    /// Exact up to 12 undecided changes of names; above, the product of all choices.
    var count: Double {
        guard let ways = nameChoiceCount, undecided.count <= Self.exactCountLimit else {
            return files.values.reduce(Double(sign: .plus, exponent: undecided.count, significand: 1)) {
                $0 * $1.count
            }
        }
        let counts = files.mapValues(\.count)
        return (0..<ways).reduce(0.0) { sum, index in
            lists(names(at: index)).map { sum + fileChoiceCount($0, counts) } ?? sum
        }
    }

    /// The number of choices for the files reachable from the root; 0 if the directories do not form a tree.
    ///
    /// A ``CrashedTree`` would yield the same count, but with hashes and an image that only visited states need.
    private func fileChoiceCount(_ lists: [UInt64: NameList], _ counts: [UInt64: Double]) -> Double {
        var count = 1.0
        var pending = [model.root]
        var seen: Set<UInt64> = [model.root]
        while let directory = pending.popLast() {
            for entry in lists[directory]?.entries ?? [] {
                let isNew = seen.insert(entry.inode).inserted
                if model.directories[entry.inode] != nil {
                    // A directory has at most one name.
                    guard isNew else { return 0 }
                    pending.append(entry.inode)
                } else if isNew {
                    count *= counts[entry.inode] ?? 1
                }
            }
        }
        return count
    }
}

/// One possible state after a crash.
struct CrashState: Sendable {
    var tree: CrashedTree
    var choices: [FileChoice]

    var hash: UInt64 { tree.hash(choices) }
    var image: DiskImage { tree.image(choices) }
}

extension StateSpace {
    /// The state for a choice of names and files; files without a choice are as synchronised.
    func state(_ names: [Bool], _ files: [UInt64: FileChoice]) -> CrashState? {
        tree(names).map { state($0, files) }
    }

    func state(_ tree: CrashedTree, _ files: [UInt64: FileChoice]) -> CrashState {
        CrashState(tree: tree, choices: tree.undecided.map { files[$0.choices.number] ?? $0.choices.first })
    }

    /// The state with the greatest loss.
    var durable: CrashState? { state(namesIfAllLost, [:]) }
}

/// The tree after a crash with its names chosen and the content of some files not yet chosen.
struct CrashedTree: Sendable {
    /// A file whose state is to be chosen.
    struct OpenFile: Sendable {
        var choices: FileChoices
        /// Its index in the image.
        var place: Int
    }

    let names: [Bool]
    private(set) var undecided: [OpenFile] = []
    private var image: DiskImage
    private var sum: UInt64

    init?(
        _ model: CrashModel, _ names: [Bool], _ lists: [UInt64: NameList], _ files: [UInt64: FileChoices]
    ) {
        self.names = names
        var nodes: [DiskImage.Node] = []
        var places: [UInt64: Int] = [:]
        var hash = StableHash()
        var sum: UInt64 = 0
        var pending: [UInt64] = [model.root]
        places[model.root] = 0
        var found = 1
        // Breadth first in name order, so that equal trees are traversed alike whatever their inode numbers.
        var next = 0
        while next < pending.count {
            let number = pending[next]
            let place = next
            next += 1
            if var node = model.directories[number] {
                node.entries = (lists[number]?.entries ?? []).filter {
                    model.files[$0.inode] != nil || model.directories[$0.inode] != nil
                }
                hash.mix(UInt64(node.attributes.permissions.rawValue) | 1 << 32)
                if !node.attributes.extended.isEmpty { hash.mix(node.attributes.extended.stableHash) }
                let sorted = node.entries.sorted { $0.name.bytes.lexicographicallyPrecedes($1.name.bytes) }
                for entry in sorted {
                    hash.mix(entry.name.bytes)
                    if let known = places[entry.inode] {
                        // A directory has at most one name.
                        if model.directories[entry.inode] != nil { return nil }
                        hash.mix(UInt64(known))
                    } else {
                        places[entry.inode] = found
                        found += 1
                        pending.append(entry.inode)
                        hash.mix(.max)
                    }
                }
                nodes.append(node)
            } else if let file = model.files[number] {
                var node = file.node
                node.content = file.durable
                nodes.append(node)
                hash.mix(UInt64(node.type.stableNumber) | 2 << 32)
                if let target = node.target { hash.mix(target.bytes) }
                if let choices = files[number] {
                    undecided.append(OpenFile(choices: choices, place: place))
                } else {
                    let content = FileChoices.hash(
                        size: file.durable.size, sum: file.durableSum, node.attributes)
                    sum = sum &+ Self.part(content, at: place)
                }
            }
        }
        self.sum = StableHash.of(hash.value) &+ sum
        image = DiskImage(nodes, like: model.base)
        image.advance(by: model.effectCount)
    }

    /// The hash of the state; equal for states that a program cannot distinguish.
    func hash(_ choices: [FileChoice]) -> UInt64 {
        var sum = sum
        for (file, choice) in zip(undecided, choices) {
            sum = sum &+ Self.part(file.choices.hash(choice), at: file.place)
        }
        return sum
    }

    /// The image with the given choice for each undecided file.
    func image(_ choices: [FileChoice]) -> DiskImage {
        var image = image
        for (file, choice) in zip(undecided, choices) {
            image.setContent(file.choices.content(choice), at: file.place)
            image.setAttributes(file.choices.attributes[choice.attributes], at: file.place)
        }
        return image
    }

    private static func part(_ hash: UInt64, at place: Int) -> UInt64 {
        StableHash.of(hash, UInt64(place))
    }
}

extension FileType {
    /// A number that is the same on every platform.
    fileprivate var stableNumber: Int {
        switch self {
        case .regular: 1
        case .directory: 2
        case .symbolicLink: 3
        case .fifo: 4
        case .socket: 5
        case .characterSpecial: 6
        case .blockSpecial: 7
        default: 8
        }
    }
}

/// The parts of a store through a mapping that may exist after a kill during the copy, or a write-back of the page.
enum TornStore {
    /// The ranges of bytes that may exist alone, word by word, from either end.
    ///
    /// For a long store, all words near its ends and one per cache line suffice.
    static func parts(of store: Range<Int>) -> [Range<Int>] {
        var parts: [Range<Int>] = []
        for tear in stride(from: store.lowerBound / 8 * 8 + 8, to: store.upperBound, by: 8) {
            let isNearEnd = min(tear - store.lowerBound, store.upperBound - tear) <= 128
            guard isNearEnd || tear % 64 == 0 else { continue }
            parts += [store.lowerBound..<tear, tear..<store.upperBound]
        }
        return parts
    }
}
