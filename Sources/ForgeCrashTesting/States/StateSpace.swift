import ForgeFileSystem

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
