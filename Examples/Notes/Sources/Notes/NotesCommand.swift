import ArgumentParser
import ForgeKVStore
import Foundation

@main
struct NotesCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "notes", abstract: "Keeps notes.",
        subcommands: [Add.self, List.self, Show.self, Remove.self, Export.self])
}

/// The option that every command has.
struct Place: ParsableArguments {
    @Option(help: "The directory of the notes. (default: ~/.notes)")
    var directory: String?

    /// Opens the notes, calls `body`, and makes everything durable before it returns.
    func withNotes<Result>(_ body: (NoteBook) throws -> Result) throws -> Result {
        let home = FileManager.default.homeDirectoryForCurrentUser
        let url = directory.map { URL(fileURLWithPath: $0) } ?? home.appending(path: ".notes")
        // Shared, so commands that run at the same time wait for each other.
        return try FileKVStore.withStore(at: url, options: .init(sharing: .shared)) { store in
            try body(NoteBook(store: store))
        }
    }
}

extension NotesCommand {
    struct Add: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Stores a note and prints its number.")
        @OptionGroup var place: Place
        @Argument var text: String

        func run() throws {
            // Printed once the note is durable.
            let note = try place.withNotes { notes in try notes.add(text) }
            print(note.id)
        }
    }

    struct List: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Prints the number and first line of every note.")
        @OptionGroup var place: Place

        func run() throws {
            for note in try place.withNotes({ notes in try notes.notes() }) {
                print("\(note.id)\t\(note.title)")
            }
        }
    }

    struct Show: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Prints a note.")
        @OptionGroup var place: Place
        @Argument var id: Int

        func run() throws { print(try place.withNotes { notes in try notes.note(id) }.text) }
    }

    struct Remove: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Removes a note.")
        @OptionGroup var place: Place
        @Argument var id: Int

        func run() throws { try place.withNotes { notes in try notes.remove(id) } }
    }

    struct Export: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Writes all notes to a file, as JSON.")
        @OptionGroup var place: Place
        @Argument var file: String

        func run() throws {
            let encoder = JSONEncoder()
            encoder.dateEncodingStrategy = .iso8601
            encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
            let data = try encoder.encode(place.withNotes { notes in try notes.notes() })
            try data.write(to: URL(fileURLWithPath: file), options: .atomic)
        }
    }
}
