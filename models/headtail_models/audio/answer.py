"""What a device learns about one patch of sound."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """Something that is heard; `score` 0..1, each class for itself."""

    label: str
    class_id: int
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TagAnswer:
    """What is heard in a patch, best score first; none when nothing reaches the threshold."""

    tags: tuple[Tag, ...]

    def to_json(self) -> dict[str, object]:
        """For `json.dumps`."""
        ranked = [
            {"label": tag.label, "class_id": tag.class_id, "score": round(tag.score, 4)}
            for tag in self.tags
        ]
        return {"task": "tag", "tags": ranked}

    def __repr__(self) -> str:
        heard = ", ".join(f"{tag.label} {tag.score:.2f}" for tag in self.tags[:5])
        return f"<TagAnswer {heard or 'nothing'}>"
