import ForgeFileSystem

/// The possible states of a file after a crash: its durable content and all later changes.
struct FileHistory: Sendable {
    typealias Attributes = DiskImage.Attributes

    private enum Resize: Sendable {
        case extend(to: Int64)
        case set(to: Int64)

        func callAsFunction(_ size: Int64) -> Int64 {
            switch self {
            case .extend(let end): max(size, end)
            case .set(let size): size
            }
        }
    }

    /// Type, number and current attributes; all other fields are empty.
    private(set) var node: DiskImage.Node
    private(set) var live: FileContent
    /// The durable content, where it is determined.
    private(set) var durable: FileContent
    /// The undetermined blocks.
    private(set) var blocks: [Int64: BlockHistory] = [:]
    private(set) var attributes: [Attributes]
    /// The number of changes of the file.
    private(set) var revision = 0

    private var durableSizes: [Int64]
    private var resizes: [Resize] = []
    private var liveSum: UInt64
    private(set) var durableSum: UInt64

    /// A file whose content and attributes are durable.
    init(_ node: DiskImage.Node) {
        self.node = node
        live = node.content
        durable = node.content
        self.node.content = FileContent()
        attributes = [node.attributes]
        durableSizes = [live.size]
        liveSum = 0
        for block in 0..<(live.size + 4095) / 4096 { liveSum &+= live.contribution(of: block) }
        durableSum = liveSum
    }

    /// Whether the file is fully determined.
    var isSettled: Bool {
        blocks.isEmpty && resizes.isEmpty && durableSizes.count == 1 && attributes.count == 1
    }

    /// The possible sizes, a durable one first.
    var sizes: [Int64] {
        var sizes: [Int64] = []
        for size in durableSizes {
            var size = size
            if !sizes.contains(size) { sizes.append(size) }
            for resize in resizes {
                size = resize(size)
                if !sizes.contains(size) { sizes.append(size) }
            }
        }
        return sizes
    }

    // MARK: Changes

    mutating func write(_ bytes: [UInt8], at offset: Int64, _ time: FileTime) {
        revision += 1
        touch(time)
        let end = offset + Int64(bytes.count)
        guard end > offset else { return }
        // After a failed synchronisation the durable file may be shorter than the live one.
        let grows = end > live.size || durableSizes.count > 1
        put(bytes, at: offset, isStore: false)
        if grows { resizes.append(.extend(to: end)) }
    }

    /// Stores bytes through a mapping, within the size of the file.
    mutating func store(_ bytes: [UInt8], at offset: Int64, _ time: FileTime?) {
        revision += 1
        if let time { touch(time) }
        put(bytes, at: offset, isStore: true)
        guard !bytes.isEmpty else { return }
        for block in offset / 4096...(offset + Int64(bytes.count) - 1) / 4096 { blocks[block]?.isStoring = true }
    }

    /// Ends the last store.
    mutating func endStore() {
        for block in blocks.keys where blocks[block]?.isStoring == true {
            blocks[block]?.isStoring = false
            revision += 1
        }
    }

    /// Marks the stores in a range as written back, or, on failure, an unknown part of them.
    mutating func writeBack(_ range: Range<Int64>, succeeds: Bool) {
        revision += 1
        // It covers whole pages, whichever mapping stored into them.
        let touched = range.lowerBound / 4096...(range.upperBound - 1) / 4096
        for block in blocks.keys where touched.contains(block) {
            if succeeds { blocks[block]?.writeBack() } else { blocks[block]?.unsettle() }
        }
    }

    /// Marks stores through removed mappings as written back.
    mutating func removeMappings() {
        revision += 1
        for block in blocks.keys { blocks[block]?.writeBack() }
    }

    private mutating func put(_ bytes: [UInt8], at offset: Int64, isStore: Bool) {
        let end = offset + Int64(bytes.count)
        guard end > offset else { return }
        var position = offset
        while position < end {
            let block = position / 4096
            let start = Int(position % 4096)
            let count = Int(min(Int64(4096 - start), end - position))
            let from = Int(position - offset)
            let written = position >= live.size ? BlockHistory.Origin.append : .write
            change(
                block,
                BlockHistory.Write(
                    offset: start, bytes: Array(bytes[from..<from + count]),
                    origin: isStore ? .store(isWrittenBack: false) : written))
            position += Int64(count)
        }
        let before = (offset / 4096...(end - 1) / 4096).map { ($0, live.contribution(of: $0)) }
        live.write(bytes.span, at: offset)
        for (block, sum) in before { liveSum = liveSum &- sum &+ live.contribution(of: block) }
    }

    mutating func setSize(_ size: Int64, _ time: FileTime) {
        revision += 1
        touch(time)
        guard size < live.size else {
            live.setSize(size)
            resizes.append(.set(to: size))
            return
        }
        // Truncated bytes read as zeros if the file grows again.
        var position = size
        while position < live.size {
            let block = position / 4096
            let start = Int(position % 4096)
            change(block, BlockHistory.Write(offset: start, bytes: [UInt8](repeating: 0, count: 4096 - start)))
            liveSum = liveSum &- live.contribution(of: block)
            position = (block + 1) * 4096
        }
        live.setSize(size)
        if size % 4096 != 0 { liveSum = liveSum &+ live.contribution(of: size / 4096) }
        resizes.append(.set(to: size))
    }

    mutating func reserve(to end: Int64, _ time: FileTime) {
        guard end > live.size else { return }
        revision += 1
        touch(time)
        live.setSize(end)
        resizes.append(.extend(to: end))
    }

    mutating func setAttributes(_ attributes: Attributes) {
        revision += 1
        node.attributes = attributes
        self.attributes.append(attributes)
    }

    /// Makes all changes durable; stores through mappings only if `coversStores` or if they were written back before.
    mutating func synchronize(_ level: SyncLevel, succeeds: Bool, coversStores: Bool) {
        revision += 1
        guard succeeds else {
            durableSizes = sizes
            resizes = []
            for block in blocks.keys { blocks[block]?.unsettle() }
            return
        }
        durableSizes = durableSizes.reduce(into: []) { kept, size in
            let settled = resizes.reduce(size) { $1($0) }
            if !kept.contains(settled) { kept.append(settled) }
        }
        resizes = []
        for block in blocks.keys { blocks[block]?.settle(coversStores: coversStores) }
        blocks = blocks.filter { !$0.value.isSettled }
        durable = live
        durableSum = liveSum
        settleAttributes(level)
    }

    /// `fdatasync` makes no attributes durable; a barrier leaves out the times.
    private mutating func settleAttributes(_ level: SyncLevel) {
        switch level {
        case .full:
            attributes = [node.attributes]
            return
        case .data: return
        case .barrier: break
        }
        var kept: [Attributes] = []
        for var old in attributes {
            (old.permissions, old.owner, old.group, old.extended) = (
                node.attributes.permissions, node.attributes.owner, node.attributes.group, node.attributes.extended
            )
            if !kept.contains(old) { kept.append(old) }
        }
        attributes = kept
    }

    private mutating func touch(_ time: FileTime) {
        node.attributes.modified = time
        node.attributes.changed = time
        if attributes.count == 1 { attributes = [node.attributes] }
    }

    private mutating func change(_ block: Int64, _ write: BlockHistory.Write) {
        if blocks[block] == nil { blocks[block] = BlockHistory(durable.bytes(of: block)) }
        blocks[block]?.add(write)
    }
}

extension FileContent {
    /// One block, with zeros beyond the end of the file.
    func bytes(of block: Int64) -> [UInt8] {
        let content = read(block)
        return content + [UInt8](repeating: 0, count: BlockHistory.size - content.count)
    }

    /// The contribution of one block to the checksum of the content; 0 for zeros.
    func contribution(of block: Int64) -> UInt64 {
        Self.contribution(of: block, StableHash.ofContent(read(block)[...]))
    }

    /// The bytes of a block up to the end of the file.
    private func read(_ block: Int64) -> [UInt8] {
        [UInt8](capacity: BlockHistory.size) { buffer in
            _ = read(into: &buffer, at: block * Int64(BlockHistory.size))
        }
    }

    /// The contribution of a block with this content hash.
    static func contribution(of block: Int64, _ hash: UInt64) -> UInt64 {
        hash == 0 ? 0 : StableHash.of(hash, UInt64(truncatingIfNeeded: block))
    }
}
