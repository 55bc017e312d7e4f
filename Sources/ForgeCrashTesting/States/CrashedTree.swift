import ForgeFileSystem
import SystemPackage

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
                    entry.name.withUnsafeBytes { hash.mix($0) }
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
                node.target?.withUnsafeBytes { hash.mix($0) }
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
