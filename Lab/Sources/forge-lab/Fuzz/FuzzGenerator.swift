import ForgeFileSystem
import ForgeStorageTesting
import SystemPackage

/// Generates random calls. It records how earlier calls ended, so that most calls use existing files. Its output
/// depends only on its seed and limits.
struct FuzzGenerator {
    let limits: FuzzLimits
    private var random: SplitMix64
    private let paths: FuzzPaths
    private var knowledge = FuzzKnowledge()

    init(seed: UInt64, limits: FuzzLimits) {
        self.limits = limits
        random = SplitMix64(seed: seed)
        paths = FuzzPaths(isConfined: limits.isConfined)
    }

    /// Records how a call ended, before the next is generated.
    mutating func learn(_ operation: FuzzOperation, _ outcome: FuzzOutcome) {
        knowledge.learn(operation, outcome)
    }

    /// The next call.
    mutating func next() -> FuzzOperation {
        if knowledge.openCount < 3, random.chance(30) { return open() }
        return switch random.below(1000) {
        case 0..<210: open()
        case 210..<240: .close(slot())
        case 240..<265: .duplicate(slot(), into: random.below(FuzzOperation.slotCount))
        case 265..<280: map()
        case 280..<300: .load(mapping(), count: loadCount(), at: random.chance(70) ? 0 : storeOffset())
        case 300..<305: random.chance(30) ? .unmap(mapping()) : .writeBack(mapping())
        case 305..<345: .read(slot { $0.isReadable }, count: count(), at: random.chance(50) ? nil : offset())
        case 345..<370: .store(mapping(), count: count(), byte: UInt8(1 + random.below(255)), at: storeOffset())
        case 370..<440: write()
        case 440..<465: .seek(slot(), to: offset(), from: random.pick([.start, .current, .end]))
        case 465..<500: .truncate(target(30), to: size())
        case 500..<515: .allocate(slot { $0.isWritable }, at: writeOffset() ?? 0, length: Int64(count()))
        case 515: .synchronize(slot(), random.pick([.full, .data, .barrier]))
        case 516..<590: .status(target(40))
        case 590..<625: setPermissions()
        case 625..<645: .setOwner(target(30), owner(), group())
        case 645..<675: .setTimes(target(30), accessed: time(), modified: time())
        case 675..<725: .createDirectory(newPlace(), permissions([0o755, 0o777, 0o700, 0o2775, 0o1777, 0o555]))
        case 725..<745: .createNode(newPlace(), random.pick(nodes), permissions([0o644, 0o600, 0o666, 0o6755]))
        case 745..<780: .createSymbolicLink(newPlace(), to: path(any))
        case 780..<795: .readSymbolicLink(place([.link]))
        case 795..<835: .link(place([.file, .file, .link, .special]), to: newPlace())
        case 835..<890: rename()
        case 890..<935: .unlink(place([.file, .link, .special]))
        case 935..<960: removeDirectory()
        case 960..<982: .list(slot { $0.kind == .directory })
        case 982..<992: .lock(slot(), random.pick([.shared, .exclusive, .exclusive, .unlocked]))
        case 992..<997: .enter(path([.directory, .link]))
        default: limits.playsUsers ? .become(random.pick(FuzzIdentity.all)) : .status(target(40))
        }
    }

    private static let nodes: [FileType] = [
        .regular, .regular, .fifo, .fifo, .fifo, .fifo, .fifo, .socket, .directory, .symbolicLink,
    ]
    private var nodes: [FileType] {
        limits.opensDevices ? Self.nodes + [.characterSpecial, .blockSpecial] : Self.nodes
    }
    private let any: [FuzzKnowledge.Kind] = [.file, .directory, .link, .special]
    private static let renameModes: [RenameMode] = [.replacing, .replacing, .replacing, .exclusive, .exchanging]
    private static let optionBits: [(FileDescriptor.OpenOptions, percent: Int)] = [
        (.truncate, 12), (.exclusiveCreate, 10), (.noFollow, 8), (.append, 12),
        (.closeOnExec, 3),
    ]

    private mutating func open() -> FuzzOperation {
        // No other process opens the other end of a FIFO.
        var options: FileDescriptor.OpenOptions = [.nonBlocking]
        for (option, percent) in Self.optionBits where random.chance(percent) { options.insert(option) }
        let place: FuzzOperation.Place
        var mode = random.pick([FileDescriptor.AccessMode.readOnly, .readOnly, .writeOnly, .readWrite, .readWrite])
        switch random.below(20) {
        case 0..<9:
            options.insert(.create)
            if random.chance(5) { options.insert(.directory) }
            place = newPlace()
        case 9..<14:
            options.insert(.directory)
            if random.chance(85) {
                mode = .readOnly
                options.remove(.truncate)
            }
            place = self.place([.directory])
        default: place = self.place([.file, .file, .link, .special])
        }
        let resolution: PathResolution
        switch random.below(20) {
        case 0: resolution = .beneath
        case 1: resolution = .noSymbolicLinks
        case 2: resolution = [.beneath, .noSymbolicLinks]
        default: resolution = []
        }
        return .open(
            slot: random.below(FuzzOperation.slotCount), place, mode, options,
            permissions([0o644, 0o600, 0o666, 0o6754, 0o444, 0]), resolution)
    }

    private mutating func setPermissions() -> FuzzOperation {
        var target = target(30)
        if case .place(let place, _) = target, !limits.changesLinkModes {
            target = .place(place, followsLinks: true)
        }
        let usual: [FilePermissions.RawValue] = [0o755, 0o777, 0o644, 0o600, 0o700, 0o711, 0o2777, 0o1777, 0o6755, 0]
        return .setPermissions(target, permissions(usual))
    }

    private mutating func write() -> FuzzOperation {
        let slot = slot { $0.isWritable && $0.kind != .directory }
        return .write(slot, count: count(), byte: UInt8(1 + random.below(255)), at: writeOffset())
    }

    private mutating func map() -> FuzzOperation {
        let slot = slot { $0.isReadable && $0.isWritable && $0.kind == .file }
        return .map(slot, at: mapOffset(), count: mapCount(), into: mapping())
    }

    private mutating func mapping() -> Int { random.below(FuzzOperation.mappingCount) }

    /// A multiple of every system's page size, or an unaligned offset.
    private mutating func mapOffset() -> Int64 {
        switch random.below(40) {
        case 0: random.pick([1, 100, -1, -65_536, .max & ~65_535, 1 << 40])
        case 1..<8: random.pick([65_536, 131_072])
        default: 0
        }
    }

    private mutating func mapCount() -> Int {
        switch random.below(40) {
        case 0: random.pick([0, -1, 1 << 55, .max])
        case 1..<20: 1 + random.below(150_000)
        default: random.pick([1, 300, 4096, 65_536, 200_000])
        }
    }

    private mutating func loadCount() -> Int { random.chance(50) ? 300 : 1 + random.below(200_000) }

    private mutating func storeOffset() -> Int {
        random.chance(60) ? random.below(400) : random.below(70_000)
    }

    private mutating func removeDirectory() -> FuzzOperation {
        let empty = knowledge.emptyDirectories
        guard !empty.isEmpty, random.chance(60) else { return .removeDirectory(place([.directory])) }
        return .removeDirectory(FuzzOperation.Place(path: random.pick(empty), base: nil))
    }

    private mutating func rename() -> FuzzOperation {
        let mode = random.pick(Self.renameModes)
        return .rename(place(), to: mode == .exchanging || random.chance(25) ? place() : newPlace(), mode)
    }

    /// Sometimes any slot, otherwise an open one that `fits` accepts.
    private mutating func slot(_ fits: (FuzzKnowledge.Slot) -> Bool = { _ in true }) -> Int {
        var slots = random.chance(90) ? knowledge.slots(where: fits) : []
        if slots.isEmpty, random.chance(80) { slots = knowledge.slots { _ in true } }
        return slots.isEmpty ? random.below(FuzzOperation.slotCount) : random.pick(slots)
    }

    /// The slot of the directory that a path starts from.
    private mutating func base() -> Int? {
        guard random.chance(20) else { return nil }
        let directories = knowledge.slots { $0.kind == .directory }
        if random.chance(10) { return slot() }
        return directories.isEmpty ? nil : random.pick(directories)
    }

    private mutating func path(_ kinds: [FuzzKnowledge.Kind]) -> POSIXPath {
        paths.path(&random, likely: knowledge.paths(kinds))
    }

    private mutating func place(_ kinds: [FuzzKnowledge.Kind]? = nil) -> FuzzOperation.Place {
        FuzzOperation.Place(path: path(kinds ?? any), base: base())
    }

    private mutating func newPlace() -> FuzzOperation.Place {
        let directories = knowledge.paths([.directory])
        var path = paths.newPath(&random, below: directories)
        if knowledge.has(path), random.chance(75) { path = paths.newPath(&random, below: directories) }
        return FuzzOperation.Place(path: path, base: base())
    }

    private mutating func target(_ percentOfSlots: Int) -> FuzzOperation.Target {
        random.chance(percentOfSlots) ? .slot(slot()) : .place(place(), followsLinks: random.chance(70))
    }

    /// The number of bytes to transfer.
    private mutating func count() -> Int {
        switch random.below(10) {
        case 0: random.pick([0, 1, 4095, 4096, 4097, 16_384, 65_536, 70_000])
        case 1: random.below(20_000)
        default: random.below(200)
        }
    }

    private mutating func offset() -> Int64 {
        switch random.below(20) {
        case 0: pick([-1, -100, 1 << 31, 1 << 40, .min], nearMaximum: 0)
        case 1..<5: Int64(random.below(200_000))
        case 5..<8: random.pick([0, 4095, 4096, 8192, 16_384, 65_536])
        default: Int64(random.below(300))
        }
    }

    /// A valid offset for a write, or one that must be refused.
    private mutating func writeOffset() -> Int64? {
        switch random.below(40) {
        case 0: pick([-1, 1 << 33], nearMaximum: -1)
        case 1..<8: Int64(random.below(200_000))
        case 8..<12: random.pick([0, 4095, 4096, 8192, 16_384, 65_536])
        case 12..<22: Int64(random.below(300))
        default: nil
        }
    }

    private mutating func size() -> Int64 {
        switch random.below(20) {
        case 0: pick([-1, 1 << 33, .min], nearMaximum: 1)
        case 1..<6: Int64(random.below(150_000))
        case 6..<10: random.pick([0, 0, 1, 4095, 4096, 4097, 16_384, 65_536, 65_537])
        default: Int64(random.below(400))
        }
    }

    /// One of `numbers`, or a number near the maximum file size.
    private mutating func pick(_ numbers: [Int64], nearMaximum distance: Int64) -> Int64 {
        guard let maximum = limits.maximumFileSize else { return random.pick(numbers) }
        return random.pick(numbers + [maximum, maximum + distance, .max, .max - 5])
    }

    /// One of `usual`, or any permissions.
    private mutating func permissions(_ usual: [FilePermissions.RawValue]) -> FilePermissions {
        var mode = random.chance(85) ? random.pick(usual) : FilePermissions.RawValue(random.below(0o10000))
        // Some systems protect links and files in shared sticky directories beyond POSIX.
        if limits.avoidsSharedStickyDirectories { mode &= ~0o1000 }
        return FilePermissions(rawValue: mode)
    }

    private mutating func owner() -> UserID? {
        random.chance(30) ? nil : UserID(rawValue: random.pick(limits.owners))
    }

    private mutating func group() -> GroupID? {
        random.chance(30) ? nil : GroupID(rawValue: random.pick(limits.groups))
    }

    /// A time that no clock shows; see `FuzzStatus`.
    private mutating func time() -> FileTime? {
        switch random.below(10) {
        case 0..<3: nil
        case 3: FileTime(seconds: 1, nanoseconds: random.pick([-1, 1_000_000_000, .max]))
        case 4: FileTime(seconds: 4_000_000_000 + Int64(random.below(3)), nanoseconds: 999_999_999)
        case 5: FileTime(seconds: -1_000_000, nanoseconds: 250_000_000)
        default: FileTime(seconds: Int64(random.below(1_000_000)), nanoseconds: Int32(random.below(1_000_000_000)))
        }
    }
}

extension SplitMix64 {
    /// A number from 0 up to but not including `bound`.
    mutating func below(_ bound: Int) -> Int {
        Int((next() >> 33) % UInt64(bound))
    }

    mutating func chance(_ percent: Int) -> Bool { below(100) < percent }

    mutating func pick<Element>(_ elements: [Element]) -> Element { elements[below(elements.count)] }
}
